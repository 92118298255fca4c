/*
 * The end of a sandbox whose files are kept: it writes everything out first, within a few seconds.
 * Others have nothing to write, and end at once.
 */
#include "sandbox/keeper_internal.h"

/* Less than those wait who stop a sandbox, and kill a keeper that does not answer. */
#define FINISH_MS 8000

static void on_over(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    keeper_end(keeper, keeper->finish.code, keeper->finish.reason);
}

/* All is written: what a machine does to switch itself off is for nothing. */
static void on_frame(struct route *route, const struct frame *frame)
{
    struct keeper *keeper = route->owner;
    if (frame->type == FRAME_END)
        uv_timer_start(&keeper->finish.patience, on_over, 0, 0);
}

static void on_lost(struct route *route, const struct error *reason)
{
    (void)route, (void)reason;
}

/* False: there is nothing to wait for. */
static bool begin(struct keeper *keeper, enum error_code code, const char *reason)
{
    static const struct route_user writing = {.frame = on_frame, .lost = on_lost};
    struct error ignored;
    struct finish *finish = &keeper->finish;
    if (!keeper->config.keep || finish->begun || keeper->ending)
        return false;
    if (keeper->paused && machine_resume(keeper->machine, &ignored) < 0)
        return false;
    keeper->paused = false;
    if (!route_start(keeper, OP_SHUTDOWN, &(struct buf){0}, &writing, keeper))
        return false;
    *finish = (struct finish){.begun = true, .code = code, .reason = reason};
    uv_timer_init(&keeper->loop, &finish->patience);
    finish->patience.data = keeper;
    uv_timer_start(&finish->patience, on_over, FINISH_MS, 0);
    return true;
}

void finish_open(struct keeper *keeper, enum error_code code, const char *reason)
{
    if (!begin(keeper, code, reason) && !keeper->finish.begun)
        keeper_end(keeper, code, reason);
}

/* Whoever asks a second time does not want to wait. */
void finish_stop(struct client *client, uint32_t stream)
{
    struct keeper *keeper = client->keeper;
    if (begin(keeper, ERROR_UNAVAILABLE, "it was stopped")) {
        keeper->finish.client = client;
        keeper->finish.stream = stream;
        return;
    }
    keeper_kill_machine(keeper);
    client_answer(client, stream, &(struct outcome){0});
    keeper_end(keeper, ERROR_UNAVAILABLE, "it was stopped");
}

void finish_abandon(struct keeper *keeper, const struct client *client)
{
    if (keeper->finish.client == client)
        keeper->finish.client = NULL;
}

void finish_answer(struct keeper *keeper)
{
    struct finish *finish = &keeper->finish;
    if (finish->client)
        client_answer(finish->client, finish->stream, &(struct outcome){0});
    finish->client = NULL;
}
