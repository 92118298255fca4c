#include "engine/rehearsal.h"

#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "proto/protocol.h"

#define WARM_MS 60000
#define OUTPUT_MAX 65536
/* Less than what code that keeps the processor busy takes, where that matters. */
#define NUDGE_NS 3000000

/*
 * One expression goes another way than several lines do. A request may come while a program runs,
 * and code of the kernel that is entered from there is translated once more for that: so some are
 * busy for a while, to be nudged, once each.
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

const char *rehearsal_name(unsigned round)
{
    static const char *const names[] = {"a-sandbox-that-was-made-ahead", "ahead", "box",
                                        REHEARSAL_NAME_LAST};
    return names[round % (sizeof names / sizeof names[0])];
}

/* Some say all that requests can say, the others what they usually do. */
static int rehearse_one(int agent, const struct rehearsal *rehearsal, struct error *err)
{
    const struct timespec moment = {.tv_nsec = NUDGE_NS};
    cleanup_buf struct buf fields = {0};
    fields_add_text(&fields, TAG_LANGUAGE, rehearsal->language);
    fields_add_number(&fields, TAG_REHEARSAL, 1);
    if (rehearsal->is_busy)
        fields_add_number(&fields, TAG_TIMEOUT_MS, WARM_MS);
    fields_add_number(&fields, TAG_OUTPUT_LIMIT, OUTPUT_MAX);
    int result = agent_call_begin(agent, OP_RUN, &fields, rehearsal->code, err);
    if (result == 0 && rehearsal->is_busy) {
        nanosleep(&moment, NULL);
        result = agent_call_nudge(agent, err);
    }
    return result < 0 ? result : agent_call_end(agent, WARM_MS, NULL, err);
}

/* Commands that change nothing; those without a language are for all. */
static const struct command {
    const char *language;
    const char *argv[4];
} commands[] = {
    {NULL, {"sh", "-c", ":", NULL}},
    {"python", {"python3", "-c", "pass", NULL}},
    {"node", {"node", "-e", "0", NULL}},
};

static int rehearse_command(int agent, const struct command *command, struct error *err)
{
    cleanup_buf struct buf fields = {0};
    for (size_t i = 0; command->argv[i]; i++)
        fields_add_text(&fields, TAG_ARG, command->argv[i]);
    int result = agent_call(agent, OP_EXEC, &fields, WARM_MS, err);
    bool is_missing = result < 0 && (err->code == ERROR_NOT_FOUND || err->code == ERROR_DENIED);
    return is_missing ? 0 : result;
}

int rehearse_commands(int agent, const char *language, struct error *err)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof commands / sizeof commands[0]; i++) {
        const char *needed = commands[i].language;
        if (!needed || (language && strcmp(needed, language) == 0))
            result = rehearse_command(agent, &commands[i], err);
    }
    return result;
}

int rehearse(int agent, const char *language, struct error *err)
{
    int result = 0;
    for (size_t i = 0; language && result == 0 && i < REHEARSALS; i++) {
        if (strcmp(rehearsals[i].language, language) == 0)
            result = rehearse_one(agent, &rehearsals[i], err);
    }
    return result;
}
