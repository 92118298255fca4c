#include "cli/usage.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/exchange.h"
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

char *usage_ports(const json_t *status)
{
    const json_t *list = json_object_get(status, "ports");
    struct buf text = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *port = json_array_get(list, i);
        const char *address = record_text(port, "address");
        bool v6 = strchr(address, ':') != NULL;
        buf_append_text(&text, i ? " " : "");
        if (strcmp(address, "127.0.0.1") != 0)
            buf_printf(&text, "%s%s%s:", v6 ? "[" : "", address, v6 ? "]" : "");
        buf_printf(&text, "%lld:%lld", (long long)json_integer_value(json_object_get(port, "host")),
                   (long long)json_integer_value(json_object_get(port, "guest")));
    }
    char *copy = xstrdup(buf_length(&text) ? buf_text(&text) : "-");
    buf_free(&text);
    return copy;
}
