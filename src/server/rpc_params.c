/* Reading the parameters of a call. */
#include <string.h>

#include "base/mem.h"
#include "server/rpc.h"

/* NULL when absent or null. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static int wrong(const char *key, const char *wanted, struct error *err)
{
    return error_set(err, ERROR_INVALID, "\"%s\" must be %s", key, wanted);
}

int rpc_member_text(const json_t *object, const char *key, const char **value, struct error *err)
{
    const json_t *found = member(object, key);
    if (found && !json_is_string(found))
        return wrong(key, "a string", err);
    if (found)
        *value = json_string_value(found);
    return 0;
}

int rpc_text(const struct rpc_call *call, const char *key, const char **value, struct error *err)
{
    return rpc_member_text(call->params, key, value, err);
}

int rpc_need_text(const struct rpc_call *call, const char *key, const char **value,
                  struct error *err)
{
    *value = NULL;
    if (rpc_text(call, key, value, err) < 0)
        return -1;
    return *value ? 0 : error_set(err, ERROR_INVALID, "\"%s\" is missing", key);
}

int rpc_member_number(const json_t *object, const char *key, uint64_t high, uint64_t *value,
                      struct error *err)
{
    const json_t *found = member(object, key);
    json_int_t number = json_integer_value(found);
    if (found && (!json_is_integer(found) || number < 0 || (uint64_t)number > high))
        return error_set(err, ERROR_INVALID, "\"%s\" must be a whole number from 0 to %llu", key,
                         (unsigned long long)high);
    if (found)
        *value = (uint64_t)number;
    return 0;
}

int rpc_number(const struct rpc_call *call, const char *key, uint64_t high, uint64_t *value,
               struct error *err)
{
    return rpc_member_number(call->params, key, high, value, err);
}

int rpc_member_flag(const json_t *object, const char *key, bool *value, struct error *err)
{
    const json_t *found = member(object, key);
    if (found && !json_is_boolean(found))
        return wrong(key, "true or false", err);
    if (found)
        *value = json_is_true(found);
    return 0;
}

int rpc_flag(const struct rpc_call *call, const char *key, bool *value, struct error *err)
{
    return rpc_member_flag(call->params, key, value, err);
}

int rpc_texts(const json_t *object, const char *key, char ***texts, struct error *err)
{
    const json_t *found = member(object, key);
    size_t count = json_array_size(found);
    if (found && !json_is_array(found))
        return wrong(key, "a list of strings", err);
    *texts = xcalloc(count + 1, sizeof **texts);
    for (size_t i = 0; i < count; i++) {
        (*texts)[i] = (char *)(uintptr_t)json_string_value(json_array_get(found, i));
        if (!(*texts)[i])
            return wrong(key, "a list of strings", err);
    }
    return 0;
}
