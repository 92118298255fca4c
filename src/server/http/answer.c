/* Answers: head and body in one write, or a stream in chunks. */
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "server/http/internal.h"

static struct buf *out_of(const struct http_request *request)
{
    return connection_out(request->connection);
}

void http_add_header(struct http_request *request, const char *name, const char *value)
{
    buf_printf(&request->added, "%s: %s\r\n", name, value);
}

/* Its names have no spaces. */
void http_add_timing(struct http_request *request, const char *name, uint64_t us)
{
    if (!http_header(request, "X-Timing"))
        return;
    buf_append_text(&request->added, "Server-Timing: ");
    for (const char *at = name; *at; at++)
        buf_append(&request->added, *at == ' ' ? "-" : at, 1);
    buf_printf(&request->added, ";dur=%.3f\r\n", (double)us / 1000);
}

static const char *date_now(struct http_server *server)
{
    time_t now = time(NULL);
    struct tm parts;
    if (server->date_at != (uint64_t)now) {
        server->date_at = (uint64_t)now;
        strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT",
                 gmtime_r(&now, &parts));
    }
    return server->date;
}

static void begin(struct http_request *request, int status, const char *type)
{
    struct buf *out = out_of(request);
    http_add_timing(request, "total", clock_monotonic_us() - request->began_us);
    request->is_answering = true;
    request->status = status;
    buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n", status,
               http_status_str((enum http_status)status), date_now(request->server), request->id);
    if (type)
        buf_printf(out, "Content-Type: %s\r\n", type);
    /* With an answer before the end of its body, the connection cannot go on. */
    if (request->server->draining || request->connection->phase == PHASE_BODY)
        request->keep_alive = false;
    if (!request->keep_alive)
        buf_append_text(out, "Connection: close\r\n");
    else if (request->is_old)
        buf_append_text(out, "Connection: keep-alive\r\n");
    buf_append(out, buf_data(&request->added), buf_length(&request->added));
}

void http_answer(struct http_request *request, int status, const char *type, const void *body,
                 size_t length)
{
    struct buf *out = out_of(request);
    begin(request, status, type);
    if (status != 204 && status != 304)
        buf_printf(out, "Content-Length: %zu\r\n", length);
    buf_append(out, "\r\n", 2);
    if (!request->is_head && length > 0) {
        buf_append(out, body, length);
        request->sent = length;
    }
    connection_flush(request->connection);
    connection_next(request->connection);
}

void http_answer_json(struct http_request *request, int status, json_t *json)
{
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    http_answer(request, status, "application/json", text ? text : "", text ? strlen(text) : 0);
}

void http_answer_error(struct http_request *request, int status, const struct error *given)
{
    struct error clean = *given, *err = &clean;
    json_text_clean(clean.message);
    json_text_clean(clean.hint);
    json_t *json = json_pack("{s:{s:s, s:s}}", "error", "code", error_code_name(err->code),
                             "message", err->message);
    if (json && err->hint[0])
        json_object_set_new(json_object_get(json, "error"), "hint", json_string(err->hint));
    http_answer_json(request, status, json);
}

void http_answer_failure(struct http_request *request, const struct error *err)
{
    static const int statuses[ERROR_CODE_COUNT] = {
        [ERROR_INVALID] = 400,   [ERROR_NOT_FOUND] = 404, [ERROR_EXISTS] = 409,
        [ERROR_BUSY] = 409,      [ERROR_DENIED] = 403,    [ERROR_MISSING] = 500,
        [ERROR_NO_SPACE] = 507,  [ERROR_LIMIT] = 413,     [ERROR_TIMEOUT] = 504,
        [ERROR_CANCELLED] = 503, [ERROR_PROTOCOL] = 502,  [ERROR_UNAVAILABLE] = 502,
        [ERROR_IO] = 500,
    };
    http_answer_error(request, err->code == ERROR_NONE ? 500 : statuses[err->code], err);
}

void http_stream_begin(struct http_request *request, int status, const char *type)
{
    /* HTTP/1.0 has no chunks: there the end of the connection is the end of the answer. */
    if (request->is_old)
        request->keep_alive = false;
    begin(request, status, type);
    if (!request->is_old)
        buf_append_text(out_of(request), "Transfer-Encoding: chunked\r\n");
    buf_append(out_of(request), "\r\n", 2);
    connection_flush(request->connection);
}

void http_stream_begin_sized(struct http_request *request, int status, const char *type,
                             uint64_t length)
{
    request->is_sized = true;
    begin(request, status, type);
    buf_printf(out_of(request), "Content-Length: %llu\r\n\r\n", (unsigned long long)length);
    connection_flush(request->connection);
}

static bool has_chunks(const struct http_request *request)
{
    return !request->is_old && !request->is_sized;
}

void http_stream_send(struct http_request *request, const void *bytes, size_t length)
{
    struct buf *out = out_of(request);
    if (length == 0 || request->is_head)
        return;
    request->sent += length;
    if (has_chunks(request))
        buf_printf(out, "%zx\r\n", length);
    buf_append(out, bytes, length);
    if (has_chunks(request))
        buf_append(out, "\r\n", 2);
    connection_flush(request->connection);
}

void http_stream_end(struct http_request *request)
{
    if (has_chunks(request) && !request->is_head)
        buf_append_text(out_of(request), "0\r\n\r\n");
    connection_flush(request->connection);
    connection_next(request->connection);
}

void http_stream_break(struct http_request *request)
{
    request->gone = NULL;
    connection_close(request->connection);
}

size_t http_waiting(const struct http_request *request)
{
    const struct writer *writer = &request->connection->writer;
    return buf_length(&writer->out) + (writer->is_writing ? buf_length(&writer->writing) : 0);
}

void http_send_event(struct http_request *request, const char *event, const char *data)
{
    cleanup_buf struct buf text = {0};
    buf_printf(&text, "event: %s\ndata: %s\n\n", event, data);
    http_stream_send(request, buf_data(&text), buf_length(&text));
}

void http_pipe_begin(struct http_request *request, const char *protocol)
{
    struct http_connection *connection = request->connection;
    buf_printf(out_of(request),
               "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n",
               protocol);
    buf_append(out_of(request), buf_data(&request->added), buf_length(&request->added));
    buf_append(out_of(request), "\r\n", 2);
    request->is_answering = true;
    connection->phase = PHASE_PIPE;
    connection->deadline = 0;
    connection_flush(connection);
    feed_waiting(connection);
}

void http_pipe_send(struct http_request *request, const void *bytes, size_t length)
{
    request->sent += length;
    buf_append(out_of(request), bytes, length);
    connection_flush(request->connection);
}

void http_pipe_end(struct http_request *request)
{
    request->keep_alive = false;
    connection_next(request->connection);
}
