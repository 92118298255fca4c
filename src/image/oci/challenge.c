#include "image/oci/challenge.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"

#define HEADER_MAX 4096

/* Reads NAME="value" or NAME=value and moves on behind it; false at the end or at nonsense. */
static bool next_pair(const char **at, char **name, char **value)
{
    const char *text = *at + strspn(*at, ", \t");
    size_t length = strcspn(text, "=, \t\"");
    if (length == 0 || text[length] != '=')
        return false;
    *name = xstrndup(text, length);
    text += length + 1;
    cleanup_buf struct buf unquoted = {0};
    if (*text != '"') {
        length = strcspn(text, ", \t");
        *value = xstrndup(text, length);
        *at = text + length;
        return true;
    }
    for (text++; *text && *text != '"'; text++) {
        if (*text == '\\' && text[1])
            text++;
        buf_append(&unquoted, text, 1);
    }
    *value = xstrdup(buf_text(&unquoted));
    *at = *text ? text + 1 : text;
    return true;
}

static void keep(struct challenge *challenge, const char *name, char *value)
{
    char **place = strcasecmp(name, "realm") == 0     ? &challenge->realm
                   : strcasecmp(name, "service") == 0 ? &challenge->service
                   : strcasecmp(name, "scope") == 0   ? &challenge->scope
                                                      : NULL;
    if (!place) {
        free(value);
        return;
    }
    free(*place);
    *place = value;
}

static bool is_basic(const char *header)
{
    return strncasecmp(header, "Basic", 5) == 0 && (!header[5] || header[5] == ' ');
}

static bool is_bearer(const char *header)
{
    return strncasecmp(header, "Bearer ", 7) == 0;
}

bool challenge_is_known(const char *header)
{
    return is_basic(header) || is_bearer(header);
}

int challenge_parse(const char *header, struct challenge *challenge, struct error *err)
{
    *challenge = (struct challenge){0};
    if (strlen(header) > HEADER_MAX)
        return error_set(err, ERROR_PROTOCOL, "the header is too long");
    if (is_basic(header))
        return 0;
    if (!is_bearer(header))
        return error_set(err, ERROR_PROTOCOL, "it is neither Basic nor Bearer");
    const char *at = header + 7;
    for (char *name, *value; next_pair(&at, &name, &value);) {
        keep(challenge, name, value);
        free(name);
    }
    if (challenge->realm)
        return 0;
    challenge_release(challenge);
    return error_set(err, ERROR_PROTOCOL, "it does not tell where tokens are");
}

static void append_escaped(struct buf *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (; *text; text++) {
        if (strchr(plain, *text))
            buf_append(out, text, 1);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
    }
}

static void append_parameter(struct buf *url, const char *name, const char *value)
{
    if (!value)
        return;
    buf_printf(url, "%s%s=", strchr(buf_text(url), '?') ? "&" : "?", name);
    append_escaped(url, value);
}

char *challenge_url(const struct challenge *challenge)
{
    cleanup_buf struct buf url = {0};
    buf_append_text(&url, challenge->realm);
    append_parameter(&url, "service", challenge->service);
    append_parameter(&url, "scope", challenge->scope);
    return xstrdup(buf_text(&url));
}

void challenge_release(struct challenge *challenge)
{
    free(challenge->realm);
    free(challenge->service);
    free(challenge->scope);
    *challenge = (struct challenge){0};
}
