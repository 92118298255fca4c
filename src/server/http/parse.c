/*
 * From bytes to a request. The head is collected and looked at line by line before http_parser gets
 * it in one piece, since http_parser is more lenient than we are; bodies go straight to it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "server/http/internal.h"

size_t parse_find_head(const uint8_t *bytes, size_t length, size_t searched)
{
    size_t from = searched > 3 ? searched - 3 : 0;
    const uint8_t *end = length > from ? memmem(bytes + from, length - from, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - bytes) + 4 : 0;
}

static int refuse(int status, struct error *err, const char *message)
{
    error_set(err, status == 413 || status == 431 ? ERROR_LIMIT : ERROR_INVALID, "%s", message);
    return status;
}

bool parse_is_token(const char *at, size_t length)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789"
                                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (size_t i = 0; i < length; i++) {
        if (at[i] == '\0' || !strchr(allowed, at[i]))
            return false;
    }
    return length > 0;
}

bool parse_has_control(const char *at, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

/* "Name: value"; folded lines begin with white space and so have no name. */
static bool take_header(struct http_request *request, char *line, size_t length)
{
    char *colon = memchr(line, ':', length);
    if (!colon || !parse_is_token(line, (size_t)(colon - line)))
        return false;
    char *value = colon + 1, *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *colon = *end = '\0';
    request->headers[request->header_count++] = (struct http_header){.name = line, .value = value};
    return true;
}

/* METHOD SP TARGET SP HTTP/1.x; http_parser checks the parts once more. */
static int take_request_line(struct http_request *request, char *line, size_t length,
                             struct error *err)
{
    char *first = memchr(line, ' ', length);
    char *second = memrchr(line, ' ', length);
    if (!first || second == first || memchr(first + 1, ' ', (size_t)(second - first - 1)))
        return refuse(400, err, "the request line is not METHOD PATH HTTP/1.1");
    line[length] = *first = *second = '\0';
    if (!parse_is_token(line, (size_t)(first - line)))
        return refuse(400, err, "the method has characters that no method has");
    if (strncmp(second + 1, "HTTP/", 5) != 0)
        return refuse(400, err, "the request line does not end in HTTP/1.1");
    if (strcmp(second + 1, "HTTP/1.1") != 0 && strcmp(second + 1, "HTTP/1.0") != 0)
        return refuse(505, err, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (first[1] != '/' && strcmp(first + 1, "*") != 0)
        return refuse(400, err, "the path does not begin with /");
    request->is_old = second[8] == '0';
    request->method = line;
    request->path = first + 1;
    char *query = strchr(first + 1, '?');
    request->query = query ? query + 1 : "";
    if (query)
        *query = '\0';
    return 0;
}

static int take_lines(struct http_request *request, char *head, size_t length, struct error *err)
{
    char *end = head + length - 2; /* the empty line */
    for (char *line = head; line < end;) {
        char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
        size_t size = (size_t)(next - line);
        if (parse_has_control(line, size))
            return refuse(400, err, "the head has control characters or lines that end in LF only");
        int status = 0;
        if (line == head)
            status = take_request_line(request, line, size, err);
        else if (request->header_count == HTTP_HEADERS_MAX)
            status = refuse(431, err, "there are too many header lines");
        else if (!take_header(request, line, size))
            status = refuse(400, err, "a header line is malformed or folded");
        if (status)
            return status;
        line = next + 2;
    }
    return 0;
}

static size_t count_headers(const struct http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += strcasecmp(request->headers[i].name, name) == 0;
    return count;
}

static int check_headers(const struct http_request *request, struct error *err)
{
    const char *encoding = http_header(request, "Transfer-Encoding");
    size_t hosts = count_headers(request, "Host");
    if (hosts > 1 || (hosts == 0 && !request->is_old))
        return refuse(400, err, "there must be one Host header");
    if (count_headers(request, "Content-Length") + count_headers(request, "Transfer-Encoding") > 1)
        return refuse(400, err, "the length of the body is given more than once");
    if (encoding && (strcasecmp(encoding, "chunked") != 0 || request->is_old))
        return refuse(501, err, "only the transfer encoding chunked is understood");
    return 0;
}

static int on_body(http_parser *parser, const char *at, size_t length)
{
    struct http_connection *connection = parser->data;
    struct http_request *request = connection->request;
    connection->received += length;
    if (connection->phase != PHASE_BODY)
        return 0;
    if (connection->received > request->body_max)
        return -1;
    if (!is_streamed(request)) {
        buf_append(&request->body, at, length);
    } else if (request->on_body) {
        request->unconsumed += length;
        request->on_body(request, (const uint8_t *)at, length);
    }
    return 0;
}

static int on_complete(http_parser *parser)
{
    struct http_connection *connection = parser->data;
    if (connection->phase == PHASE_BODY)
        connection->phase = PHASE_WORK;
    http_parser_pause(parser, 1);
    return 0;
}

static int on_headers(http_parser *parser)
{
    parser->upgrade = 0;
    return 0;
}

static const http_parser_settings settings = {
    .on_headers_complete = on_headers,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

/* Why http_parser stopped, as a status. */
static int explain(const http_parser *parser, struct error *err)
{
    switch (HTTP_PARSER_ERRNO(parser)) {
    case HPE_CB_body:
        return refuse(413, err, "the body is longer than this path takes");
    case HPE_HEADER_OVERFLOW:
        return refuse(431, err, "the head is too long");
    case HPE_INVALID_METHOD:
        return refuse(501, err, "this method is not known here");
    default:
        error_set(err, ERROR_INVALID, "the request is malformed: %s",
                  http_errno_description(HTTP_PARSER_ERRNO(parser)));
        return 400;
    }
}

static int start_parser(struct http_connection *connection, const uint8_t *bytes, size_t length,
                        struct error *err)
{
    http_parser *parser = &connection->parser;
    http_parser_init(parser, HTTP_REQUEST);
    parser->data = connection;
    size_t used = http_parser_execute(parser, &settings, (const char *)bytes, length);
    enum http_errno problem = HTTP_PARSER_ERRNO(parser);
    if ((problem != HPE_OK && problem != HPE_PAUSED) || used != length)
        return explain(parser, err);
    connection->request->keep_alive = http_should_keep_alive(parser);
    return 0;
}

int parse_head(struct http_connection *connection, const uint8_t *bytes, size_t length,
               struct error *err)
{
    struct http_request *request = request_new(connection);
    request->head = xmalloc(length);
    memcpy(request->head, bytes, length);
    connection->phase = PHASE_BODY;
    connection->received = 0;
    int status = take_lines(request, request->head, length, err);
    request_identify(request);
    if (status == 0)
        status = check_headers(request, err);
    if (status == 0)
        status = start_parser(connection, bytes, length, err);
    request->is_head = request->method && strcmp(request->method, "HEAD") == 0;
    return status;
}

long parse_body(struct http_connection *connection, const uint8_t *bytes, size_t length,
                struct error *err)
{
    http_parser *parser = &connection->parser;
    size_t used = http_parser_execute(parser, &settings, (const char *)bytes, length);
    enum http_errno problem = HTTP_PARSER_ERRNO(parser);
    if (problem != HPE_OK && problem != HPE_PAUSED)
        return -explain(parser, err);
    return (long)used;
}
