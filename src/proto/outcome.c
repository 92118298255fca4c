#include "proto/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "proto/protocol.h"

static const char *const names[VERDICT_COUNT] = {
    [VERDICT_DONE] = "done",           [VERDICT_EXITED] = "exited",
    [VERDICT_SIGNALED] = "signaled",   [VERDICT_TIMEOUT] = "timeout",
    [VERDICT_CANCELLED] = "cancelled", [VERDICT_MEMORY] = "memory",
    [VERDICT_ERROR] = "error",
};

const char *verdict_name(enum verdict verdict)
{
    return verdict < VERDICT_COUNT ? names[verdict] : "error";
}

void outcome_append(struct buf *out, uint32_t stream, const struct outcome *outcome)
{
    cleanup_buf struct buf fields = {0};
    if (outcome->verdict != VERDICT_DONE)
        fields_add_text(&fields, TAG_VERDICT, verdict_name(outcome->verdict));
    fields_add_number(&fields, TAG_EXIT_CODE, (uint64_t)outcome->exit_code);
    if (outcome->signal)
        fields_add_number(&fields, TAG_SIGNAL, (uint64_t)outcome->signal);
    fields_add_number(&fields, TAG_DURATION_US, outcome->duration_us);
    if (outcome->state_lost)
        fields_add_number(&fields, TAG_STATE_LOST, 1);
    fields_add_number(&fields, TAG_COUNT, outcome->count);
    if (outcome->output_bytes)
        fields_add_number(&fields, TAG_OUTPUT_BYTES, outcome->output_bytes);
    if (outcome->killed)
        fields_add_text(&fields, TAG_KILLED, outcome->killed);
    if (outcome->error.code != ERROR_NONE) {
        fields_add_text(&fields, TAG_ERROR_CODE, error_code_name(outcome->error.code));
        fields_add_text(&fields, TAG_MESSAGE, outcome->error.message);
        fields_add_text(&fields, TAG_HINT, outcome->error.hint);
    }
    if (outcome->status)
        fields_add_text(&fields, TAG_STATUS, outcome->status);
    frame_append(out, stream, FRAME_END, 0, buf_data(&fields), buf_length(&fields));
}

static enum verdict verdict_from(const struct field *field)
{
    for (int i = 0; i < VERDICT_COUNT; i++) {
        if (strlen(names[i]) == field->length && memcmp(names[i], field->bytes, field->length) == 0)
            return (enum verdict)i;
    }
    return VERDICT_ERROR;
}

static void copy_text(char *to, size_t size, const struct field *field)
{
    snprintf(to, size, "%.*s", (int)field->length, (const char *)field->bytes);
}

static int read_number(const struct field *field, int *value, struct error *err)
{
    uint64_t number = 0;
    int result = field_number(field, &number, err);
    *value = (int)(number & 0x7fffffff);
    return result;
}

/* It may be shown on a terminal. */
static int read_name(const struct field *field, char **name, struct error *err)
{
    int result = field_replace_text(field, name, err);
    if (result == 0)
        json_text_clean(*name);
    return result;
}

static int read_field(void *owner, const struct field *field, struct error *err)
{
    struct outcome *outcome = owner;
    char code[32];
    switch (field->tag) {
    case TAG_VERDICT:
        outcome->verdict = verdict_from(field);
        return 0;
    case TAG_EXIT_CODE:
        return read_number(field, &outcome->exit_code, err);
    case TAG_SIGNAL:
        return read_number(field, &outcome->signal, err);
    case TAG_DURATION_US:
        return field_number(field, &outcome->duration_us, err);
    case TAG_STATE_LOST:
        return field_flag(field, &outcome->state_lost, err);
    case TAG_COUNT:
        return field_number(field, &outcome->count, err);
    case TAG_OUTPUT_BYTES:
        return field_number(field, &outcome->output_bytes, err);
    case TAG_KILLED:
        return read_name(field, &outcome->killed, err);
    case TAG_ERROR_CODE:
        copy_text(code, sizeof code, field);
        outcome->error.code = error_code_from_name(code);
        return 0;
    case TAG_MESSAGE:
        copy_text(outcome->error.message, sizeof outcome->error.message, field);
        return 0;
    case TAG_HINT:
        copy_text(outcome->error.hint, sizeof outcome->error.hint, field);
        return 0;
    case TAG_STATUS:
        return field_replace_text(field, &outcome->status, err);
    default:
        return 0;
    }
}

int outcome_read(const struct frame *frame, struct outcome *outcome, struct error *err)
{
    *outcome = (struct outcome){0};
    return fields_each(frame->payload, frame->length, read_field, outcome, err);
}

void outcome_free(struct outcome *outcome)
{
    free(outcome->status);
    free(outcome->killed);
    outcome->status = outcome->killed = NULL;
}

struct outcome outcome_error(const struct error *err)
{
    return (struct outcome){.verdict = VERDICT_ERROR, .exit_code = 1, .error = *err};
}
