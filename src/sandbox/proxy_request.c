#include "sandbox/proxy_request.h"

#include <string.h>
#include <strings.h>

#define PORT_HTTP 80

/* A part of the head. */
struct span {
    const char *at;
    size_t length;
};

static int refuse(struct error *err, const char *why)
{
    return error_set(err, ERROR_INVALID, "the proxy cannot use this request: %s", why);
}

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.length > 0;
}

static bool is_text(struct span text, const char *more)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == 0x7f || (c <= ' ' && (c == '\0' || !strchr(more, c))))
            return false;
    }
    return true;
}

static bool is_word(struct span text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.at, word, text.length) == 0;
}

/* Cuts what stands before the separator off the front of `rest`. */
static bool cut(struct span *rest, const char *separator, struct span *part)
{
    const char *end = memmem(rest->at, rest->length, separator, strlen(separator));
    if (!end)
        return false;
    *part = (struct span){rest->at, (size_t)(end - rest->at)};
    rest->length -= part->length + strlen(separator);
    rest->at = end + strlen(separator);
    return true;
}

/* ---- the request line ---------------------------------------------------------------------- */

static int read_connect(struct proxy_request *request, struct span target, struct error *err)
{
    request->is_connect = true;
    request->port = 0;
    if (egress_read_authority(target.at, target.length, request->host, &request->port, err) < 0)
        return -1;
    return request->port ? 0 : refuse(err, "CONNECT names no port");
}

static void write_host(struct proxy_request *request)
{
    bool v6 = strchr(request->host, ':') != NULL;
    buf_printf(&request->head, "Host: %s%s%s", v6 ? "[" : "", request->host, v6 ? "]" : "");
    if (request->port != PORT_HTTP)
        buf_printf(&request->head, ":%u", request->port);
    buf_append_text(&request->head, "\r\n");
}

static int read_address(struct proxy_request *request, struct span method, struct span target,
                        struct span version, struct error *err)
{
    static const char scheme[] = "http://";
    if (target.length < sizeof scheme || strncasecmp(target.at, scheme, sizeof scheme - 1) != 0)
        return refuse(err, "its address does not begin with http:// (https goes by CONNECT)");
    target.at += sizeof scheme - 1;
    target.length -= sizeof scheme - 1;
    if (memchr(target.at, '#', target.length) || memchr(target.at, '\\', target.length))
        return refuse(err, "its address has characters that do not belong there");
    size_t end = 0;
    while (end < target.length && target.at[end] != '/' && target.at[end] != '?')
        end++;
    if (memchr(target.at, '@', end))
        return refuse(err, "its address has a user name");
    request->port = PORT_HTTP;
    if (egress_read_authority(target.at, end, request->host, &request->port, err) < 0)
        return -1;
    buf_printf(&request->head, "%.*s %s%.*s %.*s\r\n", (int)method.length, method.at,
               end < target.length && target.at[end] == '/' ? "" : "/", (int)(target.length - end),
               target.at + end, (int)version.length, version.at);
    write_host(request);
    return 0;
}

static int read_first_line(struct proxy_request *request, struct span line, struct error *err)
{
    struct span method, target;
    if (!cut(&line, " ", &method) || !cut(&line, " ", &target) || !is_token(method) ||
        target.length == 0 || !is_text(target, "") ||
        (!is_word(line, "HTTP/1.1") && !is_word(line, "HTTP/1.0")))
        return refuse(err, "its first line is not METHOD ADDRESS HTTP/1.1");
    if (method.length == 7 && memcmp(method.at, "CONNECT", 7) == 0)
        return read_connect(request, target, err);
    return read_address(request, method, target, line, err);
}

/* ---- the headers --------------------------------------------------------------------------- */

static bool stays_here(struct span name)
{
    static const char *const names[] = {"Host",
                                        "Connection",
                                        "Proxy-Connection",
                                        "Keep-Alive",
                                        "Proxy-Authorization",
                                        "Proxy-Authenticate",
                                        "TE",
                                        "Upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_word(name, names[i]))
            return true;
    }
    return false;
}

static int read_headers(struct proxy_request *request, struct span rest, struct error *err)
{
    unsigned lengths = 0;
    struct span line, name = {0};
    while (cut(&rest, "\r\n", &line)) {
        struct span whole = line;
        if (!cut(&line, ":", &name) || !is_token(name) || !is_text(line, " \t"))
            return refuse(err, "one of its headers is not NAME: VALUE");
        if (is_word(name, "Content-Length") || is_word(name, "Transfer-Encoding"))
            lengths++;
        if (lengths > 1)
            return refuse(err, "it tells the length of its body more than once");
        if (!stays_here(name))
            buf_printf(&request->head, "%.*s\r\n", (int)whole.length, whole.at);
    }
    buf_append_text(&request->head, "Connection: close\r\n\r\n");
    return 0;
}

int proxy_request_read(struct proxy_request *request, const uint8_t *bytes, size_t length,
                       struct error *err)
{
    *request = (struct proxy_request){0};
    size_t seen = length < PROXY_HEAD_MAX ? length : PROXY_HEAD_MAX;
    const uint8_t *end = seen ? memmem(bytes, seen, "\r\n\r\n", 4) : NULL;
    if (!end)
        return length < PROXY_HEAD_MAX ? 0 : refuse(err, "its head is longer than 16 KB");
    struct span line, rest = {(const char *)bytes, (size_t)(end - bytes) + 2};
    if (!cut(&rest, "\r\n", &line) || read_first_line(request, line, err) < 0 ||
        read_headers(request, rest, err) < 0)
        return -1;
    if (request->is_connect)
        buf_free(&request->head);
    return (int)(end - bytes) + 4;
}

void proxy_request_free(struct proxy_request *request)
{
    buf_free(&request->head);
}
