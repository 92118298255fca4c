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

static bool is_list_of_texts(const json_t *value)
{
    bool good = json_is_array(value);
    for (size_t i = 0; good && i < json_array_size(value); i++)
        good = json_is_string(json_array_get(value, i));
    return good;
}

static int check_param(const struct rpc_param *param, const json_t *value, struct error *err)
{
    switch (param->type) {
    case RPC_TEXT:
        return json_is_string(value) ? 0 : wrong(param->name, "a string", err);
    case RPC_NUMBER:
        return json_is_integer(value) && json_integer_value(value) >= 0
                   ? 0
                   : wrong(param->name, "a whole number, not below 0", err);
    case RPC_FLAG:
        return json_is_boolean(value) ? 0 : wrong(param->name, "true or false", err);
    case RPC_TEXTS:
        return is_list_of_texts(value) ? 0 : wrong(param->name, "a list of strings", err);
    case RPC_OBJECT:
        if (!json_is_object(value))
            return wrong(param->name, "an object", err);
        return rpc_check_params(param->members, value, err);
    }
    return 0;
}

int rpc_check_params(const struct rpc_param *params, const json_t *given, struct error *err)
{
    for (const struct rpc_param *param = params; param && param->name; param++) {
        const json_t *value = member(given, param->name);
        if (!value && param->is_required)
            return error_set(err, ERROR_INVALID, "\"%s\" is missing", param->name);
        if (value && check_param(param, value, err) < 0)
            return -1;
    }
    return 0;
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
