#include "agent/limits.h"

#include "agent/scope.h"
#include "agent/spawn.h"
#include "proto/protocol.h"

static uint64_t output_default;

int limits_take(struct limits *limits, const struct field *field, struct error *err)
{
    switch (field->tag) {
    case TAG_OUTPUT_LIMIT:
        return field_number(field, &limits->output_bytes, err);
    case TAG_PROCESSES:
        return field_number(field, &limits->processes, err);
    case TAG_OPEN_FILES:
        return field_number(field, &limits->open_files, err);
    default:
        return 0;
    }
}

void limits_apply(const struct limits *limits)
{
    output_default = limits->output_bytes;
    scope_limit_processes(limits->processes);
    spawn_limit_files(limits->open_files);
}

struct wish {
    bool said;
    bool terminal;
    uint64_t limit;
};

static int take_wish(void *owner, const struct field *field, struct error *err)
{
    struct wish *wish = owner;
    if (field->tag == TAG_PTY)
        return field_flag(field, &wish->terminal, err);
    if (field->tag != TAG_OUTPUT_LIMIT)
        return 0;
    wish->said = true;
    return field_number(field, &wish->limit, err);
}

/* Somebody sits before a terminal and reads: only a wish of the call itself cuts that. */
int limits_output(uint8_t operation, const uint8_t *fields, uint32_t length, uint64_t *limit,
                  struct error *err)
{
    struct wish wish = {0};
    if (operation != OP_EXEC && operation != OP_RUN && operation != OP_PROCESS_ATTACH)
        return 0;
    int result = fields_each(fields, length, take_wish, &wish, err);
    if (result < 0)
        return result;
    if (!wish.said && !wish.terminal && operation != OP_PROCESS_ATTACH)
        wish.limit = output_default;
    if (wish.limit)
        *limit = wish.limit;
    return 0;
}
