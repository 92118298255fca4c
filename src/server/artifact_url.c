/* Addresses of artifacts: signed, so that whoever has one needs no key, until it expires. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "sandbox/config.h"
#include "server/context.h"
#include "server/keys.h"
#include "server/session_output.h"

#define PREFIX "/files/"

/* Slashes stay. */
static void append_path(struct buf *out, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    for (const char *at = path; *at; at++) {
        if (strchr(plain, *at))
            buf_append(out, at, 1);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*at);
    }
}

/* What is signed: whose it is, until when, and the path as it is sent. */
static char *sign(const struct server *server, const char *namespace, const char *expires,
                  const char *path)
{
    cleanup_free char *text = xasprintf("artifact %s %s %s", namespace, expires, path);
    return keys_sign(server->secret, text);
}

char *artifact_url_at(const struct server *server, const char *base, const char *namespace,
                      const char *id, const char *path)
{
    const char *own = server->session_settings.server_url;
    cleanup_buf struct buf url = {0}, place = {0};
    buf_printf(&place, PREFIX "%s/", id);
    append_path(&place, path);
    buf_printf(&url, "%s%s", own ? own : base, buf_text(&place));
    if (server->secret) {
        char expires[32];
        snprintf(expires, sizeof expires, "%lld",
                 (long long)time(NULL) + (long long)server->session_settings.url_s);
        cleanup_free char *signature = sign(server, namespace, expires, buf_text(&place));
        buf_printf(&url, "?namespace=%s&expires=%s&signature=%s", namespace, expires, signature);
    } else if (strcmp(namespace, SANDBOX_DEFAULT_NAMESPACE) != 0) {
        buf_printf(&url, "?namespace=%s", namespace);
    }
    return xstrdup(buf_text(&url));
}

char *artifact_url(const struct http_request *request, const char *namespace, const char *id,
                   const char *path)
{
    cleanup_free char *base = http_base(request);
    return artifact_url_at(request->server->context, base, namespace, id, path);
}

bool artifact_is_signed(const struct http_request *request, char namespace[64])
{
    const struct server *server = request->server->context;
    if (!server->secret || strncmp(request->path, PREFIX, strlen(PREFIX)) != 0)
        return false;
    cleanup_free char *owner = http_query(request, "namespace");
    cleanup_free char *expires = http_query(request, "expires");
    cleanup_free char *given = http_query(request, "signature");
    if (!owner || !expires || !given || strlen(owner) >= 64 ||
        strtoll(expires, NULL, 10) < (long long)time(NULL))
        return false;
    cleanup_free char *text = xasprintf("artifact %s %s %s", owner, expires, request->path);
    if (!keys_is_signature(server->secret, text, given))
        return false;
    snprintf(namespace, 64, "%s", owner);
    return true;
}
