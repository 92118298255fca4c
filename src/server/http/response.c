#include "server/http/response.h"

#include <string.h>
#include <strings.h>

#include "server/http/internal.h"

#define HEAD_MAX (64u << 10)
#define PRELUDES_MAX 8

/* Whether it is one before the real one: "100 Continue", "103 Early Hints". */
static bool is_prelude(const http_parser *parser)
{
    return parser->status_code < 200 && parser->status_code != 101;
}

/* ---- the head ------------------------------------------------------------------------------ */

static int on_begin(http_parser *parser)
{
    struct response *response = parser->data;
    buf_free(&response->text);
    response->start_count = 0;
    return 0;
}

/* Names stand at even places, values at odd ones; a piece may go on with the one before. */
static int take_text(struct response *response, bool is_value, const char *at, size_t length)
{
    if (response->has_head)
        return 0; /* a trailer */
    if (response->start_count % 2 == is_value) {
        if (response->start_count == RESPONSE_HEADERS_MAX * 2)
            return -1;
        response->starts[response->start_count++] = buf_length(&response->text);
    } else {
        response->text.end--; /* the NUL */
    }
    buf_append(&response->text, at, length);
    buf_append(&response->text, "", 1);
    return buf_length(&response->text) > HEAD_MAX ? -1 : 0;
}

static int on_name(http_parser *parser, const char *at, size_t length)
{
    return take_text(parser->data, false, at, length);
}

static int on_value(http_parser *parser, const char *at, size_t length)
{
    struct response *response = parser->data;
    if (!response->has_head && response->start_count == 0)
        return -1;
    return take_text(response, true, at, length);
}

static bool list_headers(struct response *response)
{
    const char *text = (const char *)buf_data(&response->text);
    size_t end = buf_length(&response->text);
    response->header_count = 0;
    for (size_t i = 0; i + 1 < response->start_count; i += 2) {
        size_t name = response->starts[i], value = response->starts[i + 1];
        size_t next = i + 2 < response->start_count ? response->starts[i + 2] : end;
        if (!parse_is_token(text + name, value - name - 1) ||
            parse_has_control(text + value, next - value - 1))
            return false;
        response->headers[response->header_count++] =
            (struct http_header){.name = text + name, .value = text + value};
    }
    return true;
}

/* What http_parser takes for 1: there is no body; for 2: nor anything else of HTTP. */
static int on_head(http_parser *parser)
{
    struct response *response = parser->data;
    if (is_prelude(parser))
        return ++response->preludes > PRELUDES_MAX ? -1 : 0;
    if (parser->status_code > 599 || !list_headers(response))
        return -1;
    response->has_head = true;
    response->status = parser->status_code;
    response->has_length = parser->content_length != UINT64_MAX;
    response->length = response->has_length ? parser->content_length : 0;
    response->events->head(response);
    return response->status == 101 ? 2 : response->has_no_body;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static int on_body(http_parser *parser, const char *at, size_t length)
{
    struct response *response = parser->data;
    if (!response->has_head)
        return -1;
    response->events->body(response, (const uint8_t *)at, length);
    return 0;
}

static int on_complete(http_parser *parser)
{
    struct response *response = parser->data;
    if (!response->has_head || response->status == 101)
        return 0;
    response->is_complete = true;
    http_parser_pause(parser, 1);
    response->events->end(response);
    return 0;
}

static const http_parser_settings settings = {
    .on_message_begin = on_begin,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

void response_init(struct response *response, const struct response_events *events, void *context,
                   bool has_no_body)
{
    *response = (struct response){.events = events, .context = context, .has_no_body = has_no_body};
    http_parser_init(&response->parser, HTTP_RESPONSE);
    response->parser.data = response;
}

long response_feed(struct response *response, const uint8_t *bytes, size_t length,
                   struct error *err)
{
    http_parser *parser = &response->parser;
    if (response->is_complete)
        return 0;
    size_t used = http_parser_execute(parser, &settings, (const char *)bytes, length);
    enum http_errno problem = HTTP_PARSER_ERRNO(parser);
    if (problem == HPE_OK || problem == HPE_PAUSED)
        return (long)used;
    return error_set(err, ERROR_PROTOCOL, "the answer from inside is broken: %s",
                     problem < HPE_INVALID_EOF_STATE ? "its head is too long or malformed"
                                                     : http_errno_description(problem));
}

int response_eof(struct response *response, struct error *err)
{
    http_parser *parser = &response->parser;
    if (!response->is_complete && response->has_head)
        http_parser_execute(parser, &settings, NULL, 0);
    if (response->is_complete)
        return 0;
    return error_set(err, ERROR_PROTOCOL, "the connection inside ended before the answer did");
}

const char *response_header(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcasecmp(response->headers[i].name, name) == 0)
            return response->headers[i].value;
    }
    return NULL;
}

void response_free(struct response *response)
{
    buf_free(&response->text);
}
