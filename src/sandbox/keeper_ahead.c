/* A machine made ahead: what a start does before anybody has asked for it, and the wait for that. */
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

#define WARM_MS 60000

/* A first adoption and a first call, which leave no trace: what they go through is in memory then,
 * and translated where code has to be. */
static int warm(struct keeper *keeper, struct error *err)
{
    cleanup_buf struct buf languages = {0};
    if (keeper->config.language)
        fields_add_text(&languages, TAG_LANGUAGE, keeper->config.language);
    int result = keeper_adopt(keeper, err);
    return result < 0 ? result
                      : agent_call(machine_agent(keeper->machine), OP_QUIESCE, &languages, WARM_MS,
                                   err);
}

static int make(struct keeper *keeper, struct error *err)
{
    keeper->is_ahead = true;
    keeper->lock = state_create_ahead(&keeper->folder, err);
    if (keeper->lock < 0)
        return keeper->lock;
    int result = keeper_listen(keeper, err);
    if (result == 0)
        result = launch_prepare(&keeper->config, err);
    if (result == 0)
        result = keeper_start_machine(keeper, err);
    if (result < 0)
        return result;
    machine_enclose(keeper->machine);
    machine_step_back(keeper->machine, true);
    result = warm(keeper, err);
    return result < 0 ? result : machine_pause(keeper->machine, err);
}

int ahead_prepare(struct keeper *keeper, struct buf *in, struct error *err)
{
    int result = make(keeper, err);
    if (result < 0)
        return result;
    keeper_answer_owner(keeper, &(struct outcome){0});
    result = keeper_read_request(keeper, in, -1, err);
    return result == OP_PREPARE ? error_set(err, ERROR_PROTOCOL, "a machine is made once") : result;
}

int ahead_wake(struct keeper *keeper, struct error *err)
{
    machine_step_back(keeper->machine, false);
    return machine_resume(keeper->machine, err);
}
