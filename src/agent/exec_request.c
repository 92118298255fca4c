#include "agent/exec_request.h"

#include <string.h>

#include "agent/settings.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "proto/protocol.h"

static int take_size(const struct field *field, uint16_t *place, struct error *err)
{
    uint64_t value;
    int result = field_number(field, &value, err);
    if (result == 0)
        *place = value > UINT16_MAX ? UINT16_MAX : (uint16_t)value;
    return result;
}

static int take_term(const struct field *field, char ***env, struct error *err)
{
    cleanup_free char *text = NULL;
    int result = field_text(field, &text, err);
    if (result < 0)
        return result;
    cleanup_free char *assignment = xasprintf("TERM=%s", text);
    environment_set(env, assignment);
    return 0;
}

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct exec_request *request = owner;
    switch (field->tag) {
    case TAG_ARG:
        return field_append_text(field, &request->argv, err);
    case TAG_ENV:
        return field_append_text(field, &request->env, err);
    case TAG_CWD:
        return field_replace_text(field, &request->cwd, err);
    case TAG_USER:
        return field_replace_text(field, &request->user, err);
    case TAG_TIMEOUT_MS:
        return field_number(field, &request->timeout_ms, err);
    case TAG_PTY:
        return field_flag(field, &request->pty, err);
    case TAG_ROWS:
        return take_size(field, &request->rows, err);
    case TAG_COLS:
        return take_size(field, &request->cols, err);
    case TAG_KEEP:
        return field_flag(field, &request->keep, err);
    case TAG_TERM:
        return take_term(field, &request->env, err);
    default:
        return 0;
    }
}

int exec_request_parse(struct exec_request *request, const uint8_t *fields, uint32_t length,
                       struct error *err)
{
    int result = fields_each(fields, length, take_field, request, err);
    if (result < 0)
        return result;
    if (!request->argv || !request->argv[0][0])
        return error_set(err, ERROR_INVALID, "no program was given to run");
    if (!request->cwd || !request->cwd[0]) {
        free(request->cwd);
        request->cwd = xstrdup(settings_cwd() ? settings_cwd() : "/");
    }
    if (!request->user)
        request->user = xstrdup(settings_user());
    return 0;
}

void exec_request_free(struct exec_request *request)
{
    strv_free(request->argv);
    strv_free(request->env);
    free(request->cwd);
    free(request->user);
}

static int take_control(void *owner, const struct field *field, struct error *err)
{
    struct exec_control *control = owner;
    switch (field->tag) {
    case TAG_SIGNAL:
        return field_number(field, &control->signal, err);
    case TAG_ROWS:
        return take_size(field, &control->rows, err);
    case TAG_COLS:
        return take_size(field, &control->cols, err);
    case TAG_CANCEL:
        return field_flag(field, &control->cancel, err);
    case TAG_DETACH:
        return field_flag(field, &control->detach, err);
    default:
        return 0;
    }
}

int exec_control_parse(struct exec_control *control, const uint8_t *fields, uint32_t length,
                       struct error *err)
{
    *control = (struct exec_control){0};
    return fields_each(fields, length, take_control, control, err);
}
