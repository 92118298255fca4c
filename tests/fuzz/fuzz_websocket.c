/*
 * Hostile frames of a WebSocket: messages are within their limit, text is UTF-8, and the end is
 * told once. What carries the bytes is played here.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "server/http/websocket.h"

#define MESSAGE_MAX 4096

static size_t given, consumed, messages_length;
static unsigned ends_told;
static bool pipe_ended;

void http_answer_error(struct http_request *request, int status, const struct error *err)
{
    (void)request, (void)status, (void)err;
    abort();
}

void http_add_header(struct http_request *request, const char *name, const char *value)
{
    (void)request, (void)name, (void)value;
}

void http_pipe_begin(struct http_request *request, const char *protocol)
{
    (void)request, (void)protocol;
}

void http_pipe_send(struct http_request *request, const void *bytes, size_t length)
{
    (void)request, (void)bytes;
    assert(length > 0 && !pipe_ended);
}

void http_pipe_end(struct http_request *request)
{
    (void)request;
    assert(!pipe_ended);
    pipe_ended = true;
}

void http_stream_break(struct http_request *request)
{
    http_pipe_end(request);
}

void http_consumed(struct http_request *request, size_t length)
{
    (void)request;
    consumed += length;
    assert(consumed <= given);
}

size_t http_waiting(const struct http_request *request)
{
    (void)request;
    return 0;
}

static void on_message(struct websocket *socket, bool is_text, const uint8_t *bytes, size_t length)
{
    assert(length <= MESSAGE_MAX && ends_told == 0);
    messages_length += length;
    for (size_t at = 0, step; is_text && at < length; at += step) {
        step = utf8_sequence(bytes + at, length - at);
        assert(step > 0);
    }
    websocket_send(socket, is_text, bytes, length);
    websocket_consumed(socket, length);
}

static void on_close(struct websocket *socket, unsigned code)
{
    (void)socket, (void)code;
    ends_told++;
}

static void feed(struct http_request *request, const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? data[0] + 1u : 1;
    while (size > 0 && !pipe_ended) {
        size_t length = size < piece ? size : piece;
        given += length;
        request->on_body(request, data, length);
        data += length;
        size -= length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct websocket_handlers handlers = {.on_message = on_message,
                                                       .on_close = on_close};
    uv_loop_t loop;
    static struct http_server server;
    struct http_request request = {
        .server = &server,
        .headers = {{"Connection", "Upgrade"},
                    {"Upgrade", "websocket"},
                    {"Sec-WebSocket-Version", "13"},
                    {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}},
        .header_count = 4,
    };
    given = consumed = messages_length = ends_told = pipe_ended = 0;
    uv_loop_init(&loop);
    server.loop = &loop;
    assert(websocket_accept(&request, NULL, MESSAGE_MAX, &handlers, NULL));
    feed(&request, data, size);
    if (!pipe_ended) {
        assert(consumed == given && ends_told == 0);
        request.gone(&request);
    }
    assert(ends_told == 1 && messages_length <= given);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert(uv_loop_close(&loop) == 0);
    return 0;
}
