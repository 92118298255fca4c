/* PUT …/files/PATH: the body becomes the file, in one step when all of it is there. */
#include "base/mem.h"
#include "sandbox/requests.h"
#include "server/context.h"
#include "server/relay.h"

static void on_body(struct http_request *request, const uint8_t *bytes, size_t length)
{
    relay_take(request->context, bytes, length);
}

static void on_body_end(struct http_request *request)
{
    relay_end(request->context);
}

static void on_gone(struct http_request *request)
{
    relay_left(request->context);
}

static void on_room(struct client_call *call)
{
    relay_room(call->context);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct relay *relay = call->context;
    relay->is_calling = false;
    if (relay->request && outcome->verdict != VERDICT_DONE)
        http_answer_failure(relay->request, &outcome->error);
    else if (relay->request)
        http_answer(relay->request, 204, NULL, NULL, 0);
    buf_free(&relay->waiting);
    free(relay);
}

void files_put(struct http_request *request)
{
    static const struct call_handlers handlers = {.room = on_room, .end = on_end};
    cleanup_buf struct buf fields = {0};
    struct box *box = path_box(request);
    if (!box)
        return;
    struct relay *relay = xcalloc(1, sizeof *relay);
    relay->request = request;
    relay->is_calling = true;
    request->context = relay;
    request->gone = on_gone;
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    file_request_fields(
        &fields, &(struct file_request){.path = http_parameter(request, "*"), .parents = true});
    call_start(&box->client, &relay->call, OP_FILE_WRITE, &fields, &handlers, relay);
}
