#include <string.h>
#include <unistd.h>

#include "cli/attach_internal.h"

/* Typed one after the other they leave a command that was joined, as with docker. */
#define CONTROL_P 0x10
#define CONTROL_Q 0x11

static void send_input(struct attachment *a, const char *bytes, size_t length)
{
    a->has_fed = true;
    call_send(&a->work, bytes, length);
}

/* A Ctrl-P is held back until the next key tells what it is for. */
static void send_keys(struct attachment *a, size_t got)
{
    char *keys = a->holds_key ? a->piece : a->piece + 1;
    size_t length = a->holds_key ? got + 1 : got;
    a->piece[0] = CONTROL_P;
    const char *leave_at = memmem(keys, length, (char[]){CONTROL_P, CONTROL_Q}, 2);
    if (leave_at) {
        send_input(a, keys, (size_t)(leave_at - keys));
        a->input_ended = true;
        call_detach(&a->work);
        return;
    }
    a->holds_key = keys[length - 1] == CONTROL_P;
    send_input(a, keys, length - a->holds_key);
}

/* An empty stdin, such as /dev/null, only watches what was joined and does not end its input. */
static void end_input(struct attachment *a)
{
    a->input_ended = true;
    if (!attach_joins(a) || a->has_fed || isatty(STDIN_FILENO))
        call_send_eof(&a->work);
}

/* Reads happen in libuv's threads: no other way suits files, pipes and terminals alike without
 * changing the mode of descriptors that other processes share. */
static void on_input(uv_fs_t *request)
{
    struct attachment *a = request->data;
    ssize_t got = request->result;
    uv_fs_req_cleanup(request);
    a->reading = false;
    if (!a->working)
        return;
    if (got <= 0)
        end_input(a);
    else if (attach_joins(a) && a->raw)
        send_keys(a, (size_t)got);
    else
        send_input(a, a->piece + 1, (size_t)got);
    attach_feed(a);
}

void attach_feed(struct attachment *a)
{
    if (a->request->input || a->reading || !a->working || a->input_ended ||
        a->work.room <= a->holds_key)
        return;
    size_t size = (size_t)a->work.room - a->holds_key;
    uv_buf_t room =
        uv_buf_init(a->piece + 1, (unsigned)(size < ATTACH_PIECE ? size : ATTACH_PIECE));
    a->read.data = a;
    a->reading = uv_fs_read(&a->loop, &a->read, STDIN_FILENO, &room, 1, -1, on_input) == 0;
}
