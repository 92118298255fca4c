#include "cli/usage.h"

#include "cli/query.h"

static json_t *ask(const char *namespace, const char *name, enum operation operation,
                   int timeout_ms, struct error *err)
{
    struct outcome outcome;
    int result = query_keeper(namespace, name, operation, false, timeout_ms, &outcome, err);
    json_t *json = result == 0 && outcome.status ? json_loads(outcome.status, 0, NULL) : NULL;
    if (result == 0 && !json)
        error_set(err, ERROR_PROTOCOL, "the sandbox %s sent no figures", name);
    outcome_free(&outcome);
    return json;
}

json_t *usage_of_sandbox(const char *namespace, const char *name, bool want_inside, int timeout_ms,
                         struct error *err)
{
    struct error ignored;
    json_t *status = ask(namespace, name, OP_STATUS, timeout_ms, err);
    json_t *inside =
        status && want_inside ? ask(namespace, name, OP_METRICS, timeout_ms, &ignored) : NULL;
    if (inside)
        json_object_set_new(status, "inside", inside);
    return status;
}
