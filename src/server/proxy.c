/*
 * One request to a port inside is one connection there, which its answer ends. The answer is taken
 * apart, not passed on as it is: whatever the program inside sends, the client's connection stays
 * in order.
 */
#include "server/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/requests.h"
#include "server/http/handshake.h"
#include "server/relay.h"

/* Leaves the other half of a sandbox's streams to commands and files. */
#define CONNECTIONS_MAX 512

struct proxy {
    struct relay relay;
    struct response response;
    struct proxy_target target;
    struct box *box;
    bool is_pipe; /* after an answer 101 */
};

/* The request is over, or will be by whoever calls this; the connection inside ends. */
static struct http_request *let_go(struct proxy *proxy)
{
    struct http_request *request = proxy->relay.request;
    request->gone = NULL;
    relay_left(&proxy->relay);
    return request;
}

static void break_off(struct proxy *proxy, const struct error *err)
{
    struct http_request *request = let_go(proxy);
    if (request->is_answering)
        http_stream_break(request);
    else
        http_answer_error(request, 502, err);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void on_pipe_bytes(struct http_request *request, const uint8_t *bytes, size_t length)
{
    struct proxy *proxy = request->context;
    relay_take(&proxy->relay, bytes, length);
}

static void begin_pipe(struct proxy *proxy, struct http_request *request)
{
    const char *protocol = response_header(&proxy->response, "Upgrade");
    struct error err;
    if (!proxy->target.is_upgrade || !protocol) {
        error_set(&err, ERROR_PROTOCOL, "the program inside changed protocols unasked");
        break_off(proxy, &err);
        return;
    }
    proxy->is_pipe = true;
    request->on_body = on_pipe_bytes;
    proxy_answer_headers(request, &proxy->response, &proxy->target);
    http_pipe_begin(request, protocol);
}

static void on_answer_head(struct response *response)
{
    struct proxy *proxy = response->context;
    struct http_request *request = proxy->relay.request;
    int status = response->status;
    if (status == 101) {
        begin_pipe(proxy, request);
        return;
    }
    proxy_answer_headers(request, response, &proxy->target);
    if (status == 204 || status == 304)
        http_answer(let_go(proxy), status, NULL, NULL, 0);
    else if (response->has_length)
        http_stream_begin_sized(request, status, NULL, response->length);
    else
        http_stream_begin(request, status, NULL);
}

static void on_answer_body(struct response *response, const uint8_t *bytes, size_t length)
{
    const struct proxy *proxy = response->context;
    if (proxy->relay.request)
        http_stream_send(proxy->relay.request, bytes, length);
}

static void on_answer_end(struct response *response)
{
    struct proxy *proxy = response->context;
    if (proxy->relay.request)
        http_stream_end(let_go(proxy));
}

static const struct response_events answer_events = {
    .head = on_answer_head, .body = on_answer_body, .end = on_answer_end};

/* ---- the connection inside ----------------------------------------------------------------- */

static void take_answer(struct proxy *proxy, const uint8_t *bytes, size_t length)
{
    struct error err;
    long used = 0;
    if (!proxy->is_pipe)
        used = response_feed(&proxy->response, bytes, length, &err);
    struct http_request *request = proxy->relay.request;
    if (request && used < 0)
        break_off(proxy, &err);
    else if (request && proxy->is_pipe && (size_t)used < length)
        http_pipe_send(request, bytes + used, length - (size_t)used);
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    (void)channel;
    struct proxy *proxy = call->context;
    if (proxy->relay.request)
        take_answer(proxy, bytes, length);
    relay_passed(&proxy->relay, length);
}

static void on_eof(struct client_call *call, enum channel channel)
{
    (void)channel;
    struct proxy *proxy = call->context;
    struct error err;
    if (!proxy->relay.request)
        return;
    if (proxy->is_pipe)
        http_pipe_end(let_go(proxy));
    else if (response_eof(&proxy->response, &err) < 0)
        break_off(proxy, &err);
}

static void on_room(struct client_call *call)
{
    struct proxy *proxy = call->context;
    relay_room(&proxy->relay);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct proxy *proxy = call->context;
    struct error err = outcome->error;
    proxy->relay.is_calling = false;
    proxy->box->proxied--;
    if (err.code == ERROR_NONE)
        error_set(&err, ERROR_UNAVAILABLE, "the connection inside ended without an answer");
    if (proxy->relay.request)
        break_off(proxy, &err);
    response_free(&proxy->response);
    buf_free(&proxy->relay.waiting);
    free(proxy);
}

/* ---- the request --------------------------------------------------------------------------- */

static void on_body(struct http_request *request, const uint8_t *bytes, size_t length)
{
    struct proxy *proxy = request->context;
    char size[24];
    if (proxy->target.is_chunked)
        relay_add(&proxy->relay, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", length));
    relay_take(&proxy->relay, bytes, length);
    if (proxy->target.is_chunked)
        relay_add(&proxy->relay, "\r\n", 2);
}

static void on_body_end(struct http_request *request)
{
    struct proxy *proxy = request->context;
    if (proxy->target.is_chunked)
        relay_add(&proxy->relay, "0\r\n\r\n", 5);
}

static void on_gone(struct http_request *request)
{
    struct proxy *proxy = request->context;
    relay_left(&proxy->relay);
}

static void on_drained(struct http_request *request)
{
    struct proxy *proxy = request->context;
    relay_drained(&proxy->relay);
}

static int find_target(struct http_request *request, struct proxy_target *target, struct error *err)
{
    char *end;
    const char *text = http_parameter(request, "port");
    unsigned long port = strtoul(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || *end || port < 1 || port > UINT16_MAX)
        return error_set(err, ERROR_INVALID, "there is no port \"%.20s\"", text);
    if (strcmp(request->method, "TRACE") == 0 || strcmp(request->method, "CONNECT") == 0)
        return error_set(err, ERROR_INVALID, "%s is not passed on", request->method);
    *target = (struct proxy_target){.port = (uint16_t)port, .by_host = request->rewritten != NULL};
    target->is_chunked = http_header(request, "Transfer-Encoding") != NULL;
    target->is_upgrade = header_lists(request, "Connection", "upgrade") &&
                         http_header(request, "Upgrade") && !request->is_old &&
                         !target->is_chunked && !http_header(request, "Content-Length");
    return 0;
}

/* NULL: the request is answered. */
static struct box *find_box(struct http_request *request)
{
    struct error err;
    struct box *box = path_box(request);
    if (!box || box->proxied < CONNECTIONS_MAX)
        return box;
    error_set(&err, ERROR_LIMIT, "%d connections to ports of this sandbox are open already",
              CONNECTIONS_MAX);
    error_hint(&err, "try again when some have ended");
    http_answer_error(request, 503, &err);
    return NULL;
}

static struct proxy *make(struct http_request *request, struct box *box,
                          const struct proxy_target *target)
{
    struct proxy *proxy = xcalloc(1, sizeof *proxy);
    proxy->target = *target;
    proxy->box = box;
    box->proxied++;
    proxy->relay.request = request;
    proxy->relay.is_calling = true;
    response_init(&proxy->response, &answer_events, proxy, request->is_head);
    request->context = proxy;
    request->gone = on_gone;
    request->drained = on_drained;
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    return proxy;
}

void proxy_handle(struct http_request *request)
{
    static const struct call_handlers handlers = {
        .data = on_data, .eof = on_eof, .room = on_room, .end = on_end};
    cleanup_buf struct buf fields = {0}, head = {0};
    struct proxy_target target;
    struct error err;
    if (find_target(request, &target, &err) < 0) {
        http_answer_failure(request, &err);
        return;
    }
    struct box *box = find_box(request);
    if (!box)
        return;
    struct proxy *proxy = make(request, box, &target);
    port_request_fields(&fields, target.port);
    call_start(&box->client, &proxy->relay.call, OP_CONNECT, &fields, &handlers, proxy);
    proxy_request_head(&head, request, &target);
    relay_add(&proxy->relay, buf_data(&head), buf_length(&head));
}

void proxy_redirect(struct http_request *request)
{
    cleanup_free char *location =
        xasprintf("%s/%s%s", request->path, request->query[0] ? "?" : "", request->query);
    http_add_header(request, "Location", location);
    http_answer(request, 308, NULL, NULL, 0);
}
