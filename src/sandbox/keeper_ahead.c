/* A machine made ahead: what a start does before anybody has asked for it, and the wait for that.
 */
#include <malloc.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/title.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

#define WARM_MS 60000
/* What was put off inside is done by then, and what the kernel does every few seconds was done
 * once. What it does after a while without requests comes with the next one. Nobody has to wait for
 * that. */
#define SETTLE_MS 5500
#define AGAIN_MS 100
/* The second time goes ways that only exist after the first. */
#define ROUNDS 6

/* Less than what code that keeps the processor busy takes, where that matters. */
#define NUDGE_NS 3000000

/*
 * First calls that leave no trace. One expression goes another way than several lines do. A request
 * may come while a program runs, and code of the kernel that is entered from there is translated
 * once more for that: so some are busy for a while, to be nudged.
 */
static const struct rehearsal {
    const char *language, *code;
    bool is_busy;
} rehearsals[] = {
    {"python", "for _ in range(20000): pass", true},
    {"python", "print(6*7)\n6*7", false},
    {"python", "print(6*7)", false},
    {"node", "for (let i = 0; i < 200000; i++);", true},
    {"node", "console.log(6*7);6*7", false},
    {"node", "console.log(6*7)", false},
};
#define REHEARSALS (sizeof rehearsals / sizeof rehearsals[0])

static int rehearse(struct keeper *keeper, const struct rehearsal *rehearsal, struct error *err)
{
    const struct timespec moment = {.tv_nsec = NUDGE_NS};
    cleanup_buf struct buf fields = {0};
    int agent = machine_agent(keeper->machine);
    fields_add_text(&fields, TAG_LANGUAGE, rehearsal->language);
    fields_add_number(&fields, TAG_REHEARSAL, 1);
    int result = agent_call_begin(agent, OP_RUN, &fields, rehearsal->code, err);
    if (result == 0 && rehearsal->is_busy) {
        nanosleep(&moment, NULL);
        result = agent_call_nudge(agent, err);
    }
    return result < 0 ? result : agent_call_end(agent, WARM_MS, err);
}

static int rehearse_all(struct keeper *keeper, struct error *err)
{
    const char *language = keeper->config.language;
    int result = 0;
    for (size_t i = 0; language && result == 0 && i < REHEARSALS; i++) {
        if (strcmp(rehearsals[i].language, language) == 0)
            result = rehearse(keeper, &rehearsals[i], err);
    }
    return result;
}

/* A name longer than most: writing a shorter one over it is another way to go. */
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
    for (int i = 0; result == 0 && i < ROUNDS; i++) {
        result = adopt_as(keeper, "a-sandbox-that-was-made-ahead", err);
        if (result == 0)
            result = rehearse_all(keeper, err);
    }
    return result < 0 ? result : adopt_as(keeper, "ahead", err);
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
        result = keeper_start_machine(keeper, err);
    if (result < 0)
        return result;
    machine_enclose(keeper->machine);
    machine_step_back(keeper->machine, true);
    result = warm(keeper, err);
    keeper->cpu_us = machine_usage(keeper->machine).cpu_us;
    malloc_trim(0);
    return result;
}

/* Until somebody wants it. What has nothing to do for a while stands still. */
static int await_start(struct keeper *keeper, struct buf *in, struct error *err)
{
    int result = keeper_hear_owner(keeper, in, SETTLE_MS, err);
    if (result == 0 || err->code != ERROR_TIMEOUT)
        return result;
    result = keeper_adopt(keeper, err);
    if (result == 0)
        result = keeper_hear_owner(keeper, in, AGAIN_MS, err);
    if (result == 0 || err->code != ERROR_TIMEOUT)
        return result;
    result = machine_pause(keeper->machine, err);
    if (result == 0)
        result = keeper_hear_owner(keeper, in, -1, err);
    return result < 0 ? result : machine_wake(keeper->machine, err);
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
    machine_step_back(keeper->machine, false);
    result = keeper_read_request(keeper, in, err);
    if (result == OP_PREPARE)
        return error_set(err, ERROR_PROTOCOL, "a machine is made once");
    cleanup_free char *title = xasprintf("msb keeper %s", keeper->config.name);
    title_set(title);
    return result;
}
