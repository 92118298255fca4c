#include "agent/file_request.h"

#include "agent/settings.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "proto/protocol.h"

static int take_bounded(const struct field *field, uint64_t *place, uint64_t most,
                        struct error *err)
{
    int result = field_number(field, place, err);
    if (result == 0 && *place > most)
        *place = most;
    return result;
}

static int take_mode(const struct field *field, struct file_request *request, struct error *err)
{
    uint64_t value;
    int result = field_number(field, &value, err);
    if (result < 0)
        return result;
    if (value > 07777)
        return error_set(err, ERROR_INVALID, "a mode has permission bits only, at most 07777");
    request->mode = (mode_t)value;
    request->has_mode = true;
    return 0;
}

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct file_request *request = owner;
    switch (field->tag) {
    case TAG_PATH:
        return field_replace_text(field, &request->path, err);
    case TAG_TARGET:
        return field_replace_text(field, &request->target, err);
    case TAG_CWD:
        return field_replace_text(field, &request->cwd, err);
    case TAG_USER:
        return field_replace_text(field, &request->user, err);
    case TAG_OFFSET:
        return take_bounded(field, &request->offset, INT64_MAX, err);
    case TAG_LENGTH:
        return field_number(field, &request->length, err);
    case TAG_MODE:
        return take_mode(field, request, err);
    case TAG_APPEND:
        return field_flag(field, &request->append, err);
    case TAG_PARENTS:
        return field_flag(field, &request->parents, err);
    case TAG_RECURSIVE:
        return field_flag(field, &request->recursive, err);
    case TAG_BENEATH:
        return field_flag(field, &request->beneath, err);
    case TAG_DEPTH:
        return take_bounded(field, &request->depth, FILE_DEPTH_MAX, err);
    case TAG_LIMIT:
        return take_bounded(field, &request->limit, FILE_LIST_MAX, err);
    case TAG_TIMEOUT_MS:
        return field_number(field, &request->timeout_ms, err);
    default:
        return 0;
    }
}

static bool is_relative(const char *path)
{
    return path && path[0] != '/';
}

static int check(const struct file_request *request, struct error *err)
{
    bool moves = request->operation == OP_FILE_RENAME || request->operation == OP_FILE_COPY;
    if (!request->path || !request->path[0])
        return error_set(err, ERROR_INVALID, "no path was given");
    if (moves && (!request->target || !request->target[0]))
        return error_set(err, ERROR_INVALID, "no new path was given for %.200s", request->path);
    return 0;
}

/* A working folder that is gone is no reason to fail where it does not matter. */
static void fill_in(struct file_request *request)
{
    if (!is_relative(request->path) && !is_relative(request->target)) {
        free(request->cwd);
        request->cwd = xstrdup("/");
    } else if (!request->cwd || !request->cwd[0]) {
        free(request->cwd);
        request->cwd = xstrdup(settings_cwd() ? settings_cwd() : "/");
    }
    if (!request->user)
        request->user = xstrdup(settings_user());
}

int file_request_parse(struct file_request *request, uint8_t operation, const uint8_t *fields,
                       uint32_t length, struct error *err)
{
    *request = (struct file_request){
        .operation = operation, .length = UINT64_MAX, .depth = 1, .limit = FILE_LIST_MAX};
    int result = fields_each(fields, length, take_field, request, err);
    if (result < 0 || (result = check(request, err)) < 0)
        return result;
    fill_in(request);
    return 0;
}

void file_request_free(struct file_request *request)
{
    free(request->path);
    free(request->target);
    free(request->cwd);
    free(request->user);
}
