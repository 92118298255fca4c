/* A machine made ahead: what a start does before anybody has asked for it, and the wait for that.
 */
#include <malloc.h>
#include <string.h>

#include "base/mem.h"
#include "base/title.h"
#include "engine/rehearsal.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

/* What was put off inside is done by then. */
#define SETTLE_MS 300
/* The second time goes ways that only exist after the first. */
#define ROUNDS 2

static int adopt_as(struct keeper *keeper, const char *name, struct error *err)
{
    free(keeper->config.name);
    keeper->config.name = xstrdup(name);
    return keeper_adopt(keeper, err);
}

/* What the first user's calls will go through is in memory then, and translated where it has to
 * be. */
static int warm(struct keeper *keeper, struct error *err)
{
    int result = 0;
    for (unsigned i = 0; result == 0 && i < ROUNDS; i++) {
        result = adopt_as(keeper, rehearsal_name(i), err);
        if (result == 0)
            result = rehearse(machine_agent(keeper->machine), keeper->config.language, err);
    }
    return result < 0 ? result : adopt_as(keeper, REHEARSAL_NAME_LAST, err);
}

static int make(struct keeper *keeper, struct error *err)
{
    keeper->is_ahead = true;
    keeper->lock = state_create_ahead(&keeper->folder, err);
    if (keeper->lock < 0)
        return keeper->lock;
    int result = keeper_listen(keeper, err);
    if (result == 0)
        result = keeper_create_files(keeper, err);
    if (result == 0)
        result = launch_prepare(&keeper->config, err);
    if (result == 0)
        result = launch_settle(&keeper->config, err);
    if (result == 0)
        result = keeper_start_machine(keeper, err);
    if (result < 0)
        return result;
    machine_enclose(keeper->machine);
    machine_step_back(keeper->machine, true);
    result = warm(keeper, err);
    if (result == 0)
        result = keeper_make_loop(keeper, err);
    keeper->cpu_us = machine_usage(keeper->machine).cpu_us;
    malloc_trim(0);
    return result;
}

static int stand_by(struct keeper *keeper, struct buf *in, struct error *err)
{
    int result = machine_poise(keeper->machine, err);
    if (result == 0)
        result = keeper_hear_owner(keeper, in, -1, err);
    return result < 0 ? result : machine_wake(keeper->machine, err);
}

/* Until somebody wants it. What has nothing to do for a while stands still. */
static int await_start(struct keeper *keeper, struct buf *in, struct error *err)
{
    int result = keeper_hear_owner(keeper, in, SETTLE_MS, err);
    bool is_idle = result < 0 && err->code == ERROR_TIMEOUT;
    if (is_idle)
        result = machine_pause(keeper->machine, err);
    machine_step_back(keeper->machine, false);
    return is_idle && result == 0 ? stand_by(keeper, in, err) : result;
}

int ahead_prepare(struct keeper *keeper, struct buf *in, struct error *err)
{
    int result = make(keeper, err);
    if (result < 0)
        return result;
    keeper_answer_owner(keeper, &(struct outcome){0});
    result = await_start(keeper, in, err);
    if (result < 0)
        return result;
    result = keeper_read_request(keeper, in, err);
    if (result == OP_PREPARE)
        return error_set(err, ERROR_PROTOCOL, "a machine is made once");
    cleanup_free char *title = xasprintf("msb keeper %s", keeper->config.name);
    title_set(title);
    return result;
}
