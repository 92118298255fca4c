/*
 * GET …/terminal: a command on a terminal of a sandbox over a WebSocket. Binary messages are bytes
 * of the terminal, text messages JSON: {"resize": [rows, cols]} from the client, {"exit": {…}} at
 * the end from us.
 */
#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/requests.h"
#include "server/context.h"
#include "server/relay.h"

#define MESSAGE_MAX (64u << 10)
#define SIZE_LIMIT 1000

static const char shell[] = "command -v bash >/dev/null && exec bash -l; exec sh -l";

static void terminal_free(struct relay *relay)
{
    buf_free(&relay->waiting);
    free(relay);
}

/* ---- from the client ----------------------------------------------------------------------- */

static bool is_size(json_int_t number)
{
    return number > 0 && number <= SIZE_LIMIT;
}

static void take_control(struct relay *relay, const uint8_t *bytes, size_t length)
{
    json_int_t rows = 0, cols = 0;
    json_t *control = json_loadb((const char *)bytes, length, 0, NULL);
    int result = json_unpack(control, "{s:[I,I]}", "resize", &rows, &cols);
    json_decref(control);
    if (result == 0 && is_size(rows) && is_size(cols)) {
        call_resize(&relay->call, (unsigned)rows, (unsigned)cols);
        websocket_consumed(relay->socket, length);
        return;
    }
    struct websocket *socket = relay->socket;
    relay_left(relay);
    websocket_close(socket, WEBSOCKET_POLICY, "text must be {\"resize\": [rows, cols]}");
}

static void on_message(struct websocket *socket, bool is_text, const uint8_t *bytes, size_t length)
{
    struct relay *relay = websocket_context(socket);
    if (is_text)
        take_control(relay, bytes, length);
    else
        relay_take(relay, bytes, length);
}

static void on_close(struct websocket *socket, unsigned code)
{
    (void)code;
    relay_left(websocket_context(socket));
}

static void on_drained(struct websocket *socket)
{
    relay_drained(websocket_context(socket));
}

/* ---- from the sandbox ---------------------------------------------------------------------- */

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    (void)channel;
    struct relay *relay = call->context;
    if (relay->socket)
        websocket_send(relay->socket, false, bytes, length);
    relay_passed(relay, length);
}

static void on_room(struct client_call *call)
{
    relay_room(call->context);
}

static void send_exit(struct websocket *socket, const struct outcome *outcome)
{
    json_t *exit = json_pack(
        "{s:{s:s, s:i}}", "exit", "verdict", verdict_name(outcome->verdict), "exit_code",
        outcome->verdict == VERDICT_SIGNALED ? 128 + outcome->signal : outcome->exit_code);
    if (outcome->error.code != ERROR_NONE)
        json_object_set_new(json_object_get(exit, "exit"), "message",
                            json_string(outcome->error.message));
    cleanup_free char *text = json_dumps(exit, JSON_COMPACT);
    json_decref(exit);
    websocket_send(socket, true, text, strlen(text));
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct relay *relay = call->context;
    relay->is_calling = false;
    if (relay->socket)
        send_exit(relay->socket, outcome);
    if (relay->socket)
        websocket_close(relay->socket, WEBSOCKET_DONE, "");
    terminal_free(relay);
}

/* ---- its beginning ------------------------------------------------------------------------- */

static unsigned size_of(const struct http_request *request, const char *name, unsigned otherwise)
{
    cleanup_free char *text = http_query(request, name);
    long number = text ? strtol(text, NULL, 10) : 0;
    return is_size(number) ? (unsigned)number : otherwise;
}

static void start(struct relay *relay, struct box *box, const struct buf *fields)
{
    static const struct call_handlers handlers = {.data = on_data, .room = on_room, .end = on_end};
    relay->is_calling = true;
    call_start(&box->client, &relay->call, OP_EXEC, fields, &handlers, relay);
}

void terminal_open(struct http_request *request)
{
    static const struct websocket_handlers handlers = {
        .on_message = on_message, .on_close = on_close, .on_drained = on_drained};
    cleanup_buf struct buf fields = {0};
    cleanup_free char *command = http_query(request, "command");
    char *argv[] = {"sh", "-c", command ? command : (char *)(uintptr_t)shell, NULL};
    struct exec_request wanted = {.argv = argv,
                                  .term = "xterm-256color",
                                  .rows = size_of(request, "rows", 24),
                                  .cols = size_of(request, "cols", 80)};
    struct box *box = path_box(request);
    if (!box)
        return;
    exec_request_fields(&fields, &wanted);
    struct relay *relay = xcalloc(1, sizeof *relay);
    struct websocket *socket = websocket_accept(request, "terminal", MESSAGE_MAX, &handlers, relay);
    if (!socket) {
        free(relay);
        return;
    }
    relay->socket = socket;
    start(relay, box, &fields);
}
