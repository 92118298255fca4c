/* session.tasks.…, session.orphans.clean, session.shutdown: for who runs the server. */
#include "base/mem.h"
#include "server/rpc.h"
#include "session/tasks.h"

#define BUDGET_DEFAULT_S 30
#define BUDGET_MAX_S 3600

void method_tasks_pause(struct rpc_call *call)
{
    rpc_succeed(call, tasks_pause(call->server->sessions));
}

void method_tasks_resume(struct rpc_call *call)
{
    rpc_succeed(call, tasks_resume(call->server->sessions));
}

void method_tasks_restart(struct rpc_call *call)
{
    rpc_succeed(call, tasks_restart(call->server->sessions));
}

void method_tasks_status(struct rpc_call *call)
{
    rpc_succeed(call, tasks_status(call->server->sessions));
}

void method_tasks_health(struct rpc_call *call)
{
    rpc_succeed(call, tasks_health(call->server->sessions));
}

/* ---- what takes a while -------------------------------------------------------------------- */

struct waiting {
    struct rpc_call *call; /* NULL: the client has left */
    struct orphan_wait orphans;
    struct shutdown shutdown;
};

static void on_left(struct rpc_call *call)
{
    struct waiting *waiting = call->context;
    waiting->call = NULL;
}

static struct waiting *waiting_new(struct rpc_call *call)
{
    struct waiting *waiting = xcalloc(1, sizeof *waiting);
    waiting->call = call;
    waiting->orphans.context = waiting->shutdown.context = waiting;
    call->context = waiting;
    call->left = on_left;
    return waiting;
}

static void finish(struct waiting *waiting, json_t *result)
{
    if (waiting->call)
        rpc_succeed(waiting->call, result);
    else
        json_decref(result);
    free(waiting);
}

static void on_swept(struct orphan_wait *wait, size_t count)
{
    finish(wait->context, json_pack("{s:I}", "cleaned", (json_int_t)count));
}

void method_orphans_clean(struct rpc_call *call)
{
    struct waiting *waiting = waiting_new(call);
    waiting->orphans.swept = on_swept;
    tasks_sweep_orphans(call->server->sessions, &waiting->orphans);
}

static void on_shut_down(struct shutdown *shutdown, json_t *report)
{
    finish(shutdown->context, report);
}

void method_session_shutdown(struct rpc_call *call)
{
    struct error err;
    uint64_t seconds = BUDGET_DEFAULT_S;
    if (rpc_number(call, "timeout", BUDGET_MAX_S, &seconds, &err) < 0) {
        rpc_fail(call, &err);
        return;
    }
    struct waiting *waiting = waiting_new(call);
    waiting->shutdown.ended = on_shut_down;
    if (tasks_shut_down(call->server->sessions, &waiting->shutdown, seconds * 1000, &err) == 0)
        return;
    call->left = NULL;
    free(waiting);
    rpc_fail(call, &err);
}
