/* The protocol on two descriptors, one message a line. Both eras share the one client. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "server/mcp/internal.h"

/* Clients give up on lines much longer than what we send; what they send may be a file. */
#define LINE_SENT_MAX (4u << 20)
#define LINE_TAKEN_MAX (72u << 20)

struct stdio {
    struct mcp *mcp;
    struct mcp_peer *peer;
    struct mcp_stream back;
    uv_pipe_t in, out;
    struct buf line;
    size_t searched; /* of it, without an end */
    char piece[65536];
    unsigned open_handles;
    void (*ended)(struct mcp *mcp);
};

struct line_stream {
    struct mcp_stream base;
    struct stdio *stdio;
};

struct line_write {
    uv_write_t request;
    char *text;
};

static void on_written(uv_write_t *request, int status)
{
    struct line_write *write = (struct line_write *)request;
    (void)status;
    free(write->text);
    free(write);
}

static void write_line(struct stdio *stdio, const json_t *message)
{
    if (uv_is_closing((uv_handle_t *)&stdio->out))
        return;
    cleanup_free char *json = message_text(message);
    struct line_write *write = xcalloc(1, sizeof *write);
    if (strlen(json) > LINE_SENT_MAX && json_object_get(message, "id")) {
        json_t *instead =
            message_error(json_object_get(message, "id"), MCP_INTERNAL,
                          "the answer is too long for stdio; ask for less of it", NULL);
        free(json);
        json = message_text(instead);
        json_decref(instead);
    }
    write->text = xasprintf("%s\n", json);
    uv_buf_t piece = uv_buf_init(write->text, (unsigned)strlen(write->text));
    if (uv_write(&write->request, (uv_stream_t *)&stdio->out, &piece, 1, on_written) < 0)
        on_written(&write->request, 0);
}

static void send_message(struct mcp_stream *base, const json_t *message)
{
    write_line(((struct line_stream *)base)->stdio, message);
}

static void finish(struct mcp_stream *base, const json_t *message, int status)
{
    (void)status;
    if (message)
        write_line(((struct line_stream *)base)->stdio, message);
    free(base);
}

static void send_back(struct mcp_stream *back, const json_t *message)
{
    struct stdio *stdio = (struct stdio *)((char *)back - offsetof(struct stdio, back));
    write_line(stdio, message);
}

static void finish_back(struct mcp_stream *back, const json_t *message, int status)
{
    (void)back, (void)message, (void)status;
}

static void refuse(struct stdio *stdio, int code, const char *text)
{
    json_t *message = message_error(NULL, code, text, NULL);
    json_object_set_new(message, "id", json_null());
    write_line(stdio, message);
    json_decref(message);
}

static void take(struct stdio *stdio, json_t *message)
{
    struct mcp_incoming incoming = {.mcp = stdio->mcp,
                                    .message = message,
                                    .peer = stdio->peer,
                                    .scope = stdio->peer->scope,
                                    .is_modern = message_is_modern(message, NULL)};
    if (message_is_response(message)) {
        receive_response(stdio->peer, message);
    } else if (message_is_notification(message)) {
        receive_notification(&incoming);
    } else if (message_is_request(message)) {
        struct line_stream *stream = xcalloc(1, sizeof *stream);
        stream->base = (struct mcp_stream){.send = send_message, .finish = finish};
        stream->stdio = stdio;
        incoming.stream = &stream->base;
        receive_request(&incoming);
    } else {
        refuse(stdio, MCP_INVALID_REQUEST, "a line must be one message of JSON-RPC 2.0");
    }
}

static void take_line(struct stdio *stdio, const char *text, size_t length)
{
    if (length > 0 && text[length - 1] == '\r')
        length--;
    if (length == 0)
        return;
    json_t *message = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (message)
        take(stdio, message);
    else
        refuse(stdio, MCP_PARSE, "the line is no JSON");
    json_decref(message);
}

static void on_closed(uv_handle_t *handle)
{
    struct stdio *stdio = handle->data;
    if (--stdio->open_handles > 0)
        return;
    void (*ended)(struct mcp *) = stdio->ended;
    struct mcp *mcp = stdio->mcp;
    buf_free(&stdio->line);
    free(stdio);
    ended(mcp);
}

/* The client has gone: nobody waits for what is under way. */
static void close_both(struct stdio *stdio)
{
    if (uv_is_closing((uv_handle_t *)&stdio->in))
        return;
    peer_free(stdio->mcp, stdio->peer);
    uv_close((uv_handle_t *)&stdio->in, on_closed);
    uv_close((uv_handle_t *)&stdio->out, on_closed);
}

static void take_lines(struct stdio *stdio)
{
    for (;;) {
        const char *text = (const char *)buf_data(&stdio->line);
        size_t unsearched = buf_length(&stdio->line) - stdio->searched;
        const char *end = unsearched > 0 ? memchr(text + stdio->searched, '\n', unsearched) : NULL;
        if (!end) {
            stdio->searched += unsearched;
            return;
        }
        stdio->searched = 0;
        take_line(stdio, text, (size_t)(end - text));
        buf_consume(&stdio->line, (size_t)(end - text) + 1);
    }
}

static void on_read(uv_stream_t *in, ssize_t count, const uv_buf_t *piece)
{
    struct stdio *stdio = in->data;
    if (count < 0) {
        close_both(stdio);
        return;
    }
    buf_append(&stdio->line, piece->base, (size_t)count);
    take_lines(stdio);
    if (buf_length(&stdio->line) > LINE_TAKEN_MAX) {
        refuse(stdio, MCP_INVALID_REQUEST, "the line is too long");
        close_both(stdio);
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *piece)
{
    struct stdio *stdio = handle->data;
    (void)suggested;
    *piece = uv_buf_init(stdio->piece, sizeof stdio->piece);
}

int mcp_stdio_start(struct mcp *mcp, int in, int out, void (*ended)(struct mcp *mcp))
{
    struct stdio *stdio = xcalloc(1, sizeof *stdio);
    stdio->mcp = mcp;
    stdio->ended = ended;
    stdio->peer = peer_make(mcp);
    snprintf(stdio->peer->scope, sizeof stdio->peer->scope, "*");
    stdio->back = (struct mcp_stream){.send = send_back, .finish = finish_back};
    stdio->peer->back = &stdio->back;
    stdio->in.data = stdio->out.data = stdio;
    uv_pipe_init(mcp->loop, &stdio->in, 0);
    uv_pipe_init(mcp->loop, &stdio->out, 0);
    stdio->open_handles = 2;
    int result = uv_pipe_open(&stdio->in, in);
    if (result == 0)
        result = uv_pipe_open(&stdio->out, out);
    if (result == 0)
        result = uv_read_start((uv_stream_t *)&stdio->in, on_room, on_read);
    return result;
}
