/* Ending a sandbox: the keeper is asked, and killed if it does not answer. */
#include <signal.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "sandbox/boxes.h"
#include "sandbox/state.h"

#define STOP_MS 10000

struct stopping {
    struct box *box;
    struct client_call operation;
    struct box_waiter waiter;
    struct box_waiter *caller;
    uv_timer_t patience;
};

static void on_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

static void on_gone(struct box_waiter *waiter, const struct error *err)
{
    struct stopping *stopping = waiter->context;
    struct box_waiter *caller = stopping->caller;
    uv_close((uv_handle_t *)&stopping->patience, on_timer_closed);
    if (caller)
        caller->done(caller, err);
}

/* The name is free once the keeper has closed its connection, which follows. */
static void on_answer(struct client_call *operation, const struct outcome *outcome)
{
    (void)operation, (void)outcome;
}

/* Asked on a connection of its own: the one that came from the launcher does not tell who the
 * keeper is. */
static void on_impatient(uv_timer_t *timer)
{
    const struct stopping *stopping = timer->data;
    struct error ignored;
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    cleanup_fd int fd = state_connect(stopping->box->namespace, stopping->box->name, &ignored);
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0) {
        log_warn("the keeper of %s does not answer and is killed", stopping->box->name);
        kill(peer.pid, SIGKILL);
    }
}

void box_stop(struct box *box, struct box_waiter *waiter)
{
    static const struct call_handlers handlers = {.end = on_answer};
    struct stopping *stopping = xcalloc(1, sizeof *stopping);
    *stopping = (struct stopping){.box = box, .caller = waiter};
    stopping->waiter = (struct box_waiter){.done = on_gone, .context = stopping};
    uv_timer_init(box->boxes->loop, &stopping->patience);
    stopping->patience.data = stopping;
    uv_timer_start(&stopping->patience, on_impatient, STOP_MS, 0);
    box_await_end(box, &stopping->waiter);
    call_start(&box->client, &stopping->operation, OP_STOP, NULL, &handlers, stopping);
}
