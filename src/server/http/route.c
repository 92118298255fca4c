/* Finding the route of a request: patterns of paths, what their parts stand for, and queries. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "server/http/internal.h"

static void add_parameter(struct http_request *request, const char *name, const char *at,
                          size_t length)
{
    request->parameters[request->parameter_count++] =
        (struct http_parameter){.name = name, .raw = at, .raw_length = length};
}

static bool matches(struct http_request *request, const char *pattern)
{
    const char *path = request->path;
    request->parameter_count = 0;
    for (; *pattern; pattern++) {
        size_t length = 1;
        if (strcmp(pattern, "*") == 0) {
            add_parameter(request, pattern, path, strlen(path));
            return true;
        }
        if (*pattern == '{') {
            length = strcspn(path, "/");
            add_parameter(request, pattern + 1, path, length);
            pattern = strchr(pattern, '}');
        } else if (*pattern != *path) {
            return false;
        }
        if (length == 0)
            return false;
        path += length;
    }
    return *path == '\0';
}

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* NULL when an escape is broken or stands for NUL. */
static char *decode(const char *at, size_t length)
{
    cleanup_free char *text = xmalloc(length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        text[used] = at[i];
        if (at[i] == '%') {
            if (length - i < 3 || !isxdigit((unsigned char)at[i + 1]) ||
                !isxdigit((unsigned char)at[i + 2]))
                return NULL;
            text[used] = (char)(digit(at[i + 1]) << 4 | digit(at[i + 2]));
            i += 2;
        }
        if (text[used++] == '\0')
            return NULL;
    }
    text[used] = '\0';
    return steal_pointer(&text);
}

static int decode_parameters(struct http_request *request, struct error *err)
{
    for (size_t i = 0; i < request->parameter_count; i++) {
        struct http_parameter *parameter = &request->parameters[i];
        parameter->value = decode(parameter->raw, parameter->raw_length);
        bool is_part = parameter->name[0] != '*';
        if (parameter->value && !(is_part && strchr(parameter->value, '/')))
            continue;
        error_set(err, ERROR_INVALID, "the path has a broken escape, or one for NUL or a slash");
        return 400;
    }
    return 0;
}

static int refuse_method(struct http_request *request, struct error *err)
{
    for (const struct http_route *route = request->server->routes; route->path; route++) {
        if (matches(request, route->path))
            buf_printf(&request->added, "Allow: %s\r\n", route->method);
    }
    request->parameter_count = 0;
    error_set(err, ERROR_INVALID, "this path does not take %.20s", request->method);
    return 405;
}

int route_find(struct http_request *request, struct error *err)
{
    const char *method = request->is_head ? "GET" : request->method;
    bool is_known = false;
    for (const struct http_route *route = request->server->routes; route->path; route++) {
        if (!matches(request, route->path))
            continue;
        is_known = true;
        if (route->method && strcmp(route->method, method) != 0)
            continue;
        request->route = route;
        request->body_max = route->body_max;
        return decode_parameters(request, err);
    }
    request->parameter_count = 0;
    if (is_known)
        return refuse_method(request, err);
    error_set(err, ERROR_NOT_FOUND, "there is nothing at this path");
    error_hint(err, "the API is at /api/v1/rpc");
    return 404;
}

static const struct http_parameter *find(const struct http_request *request, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < request->parameter_count; i++) {
        const char *own = request->parameters[i].name;
        if (strncmp(own, name, length) == 0 && (own[length] == '}' || own[length] == '\0'))
            return &request->parameters[i];
    }
    return NULL;
}

const char *http_parameter(const struct http_request *request, const char *name)
{
    const struct http_parameter *parameter = find(request, name);
    return parameter ? parameter->value : NULL;
}

void http_rewrite(struct http_request *request, char *path)
{
    free(request->rewritten);
    request->path = request->rewritten = path;
}

char *http_query(const struct http_request *request, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = request->query; *at; at += strcspn(at, "&")) {
        at += *at == '&';
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return decode(at + length + 1, strcspn(at + length + 1, "&"));
    }
    return NULL;
}

const char *http_rest(const struct http_request *request)
{
    const struct http_parameter *parameter = find(request, "*");
    return parameter ? parameter->raw : NULL;
}
