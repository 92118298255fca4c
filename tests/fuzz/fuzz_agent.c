/*
 * Feeds arbitrary bytes to the agent as if a keeper had sent them: frames, streams, credit, and the
 * arguments of operations. Operations are not carried out; streams answer what they are sent, so
 * that credit and ends are tried in every order. The connection is built in, to begin anew each
 * time.
 */
#include <assert.h>
#include <stdlib.h>

#include "../../src/agent/connection.c"
#include "agent/exec_request.h"
#include "agent/file_request.h"
#include "agent/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    size_t room = stream_room(stream);
    assert(length <= PROTOCOL_WINDOW);
    stream_send(stream, CHANNEL_STDOUT, bytes, length < room ? length : room);
    if (channel == CHANNEL_STDIN)
        stream_grant(stream, length);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct outcome done = {.verdict = VERDICT_EXITED, .exit_code = channel};
    stream_end(stream, &done);
}

static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0)
        stream_end_error(stream, &err);
}

static void on_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    static const struct stream_events events = {
        .data = on_data, .eof = on_eof, .control = on_control};
    struct error err = {0};
    struct exec_request exec = {0};
    struct file_request file = {0};
    stream->events = &events;
    int result = limits_output(stream->operation, fields, length, &stream->output_limit, &err);
    if (result == 0 && stream->operation >= OP_FILE_READ && stream->operation <= OP_FILE_CHANGES)
        result = file_request_parse(&file, stream->operation, fields, length, &err);
    else if (result == 0)
        result = exec_request_parse(&exec, fields, length, &err);
    file_request_free(&file);
    exec_request_free(&exec);
    if (result < 0)
        stream_end_error(stream, &err);
}

static void on_closed(const struct error *err)
{
    assert(err->code != ERROR_NONE);
}

static void begin_anew(void)
{
    static const struct connection_events events = {.open = on_open, .closed = on_closed};
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct stream *at = connection.buckets[i], *next; at; at = next) {
            next = at->next;
            free(at);
        }
        connection.buckets[i] = NULL;
    }
    buf_free(&connection.in);
    buf_free(&connection.out);
    connection.closed = connection.starved = false;
    connection.stream_count = 0;
    connection.events = &events;
    connection.watch.fd = -1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    loop_open();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    begin_anew();
    buf_append(&connection.in, data, size);
    if (take_frames(&err) < 0)
        close_with(&err);
    struct frame frame;
    int length;
    while ((length = frame_decode(&connection.out, &frame, &err)) > 0)
        buf_consume(&connection.out, (size_t)length);
    assert(length == 0 && buf_length(&connection.out) == 0);
    begin_anew();
    return 0;
}
