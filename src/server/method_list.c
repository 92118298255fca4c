/* sandbox.list and sandbox.metrics.get: every keeper is asked, and all answers make one. */
#include <string.h>

#include "server/rpc.h"
#include "server/survey.h"

#define MEGABYTE (1 << 20)

static json_t *describe_for_list(const struct survey_entry *found)
{
    static const char *const shown[] = {"image",     "engine",     "accelerator", "state", "cpus",
                                        "memory_mb", "started_us", "language",    "ports"};
    json_t *entry = json_pack("{s:s, s:s, s:s}", "namespace", found->namespace, "name", found->name,
                              "state", found->status ? "running" : "unresponsive");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        json_t *value = json_object_get(found->status, shown[i]);
        if (value)
            json_object_set(entry, shown[i], value);
    }
    return entry;
}

static json_t *describe_usage(const struct survey_entry *found)
{
    json_t *memory = json_object_get(found->status, "host_memory");
    json_t *processor = json_object_get(found->status, "cpu_percent");
    json_t *engine = json_object_get(found->status, "engine");
    json_t *disk = json_object_get(found->status, "disk_bytes");
    json_t *entry =
        json_pack("{s:s, s:s, s:b, s:n, s:n, s:n}", "namespace", found->namespace, "name",
                  found->name, "running", 1, "cpu_usage", "memory_usage", "disk_usage");
    if (processor)
        json_object_set(entry, "cpu_usage", processor);
    if (memory)
        json_object_set_new(entry, "memory_usage",
                            json_integer((json_integer_value(memory) + MEGABYTE - 1) / MEGABYTE));
    if (disk)
        json_object_set(entry, "disk_usage", disk);
    else if (found->disk_bytes)
        json_object_set_new(entry, "disk_usage", json_integer((json_int_t)found->disk_bytes));
    if (engine)
        json_object_set(entry, "engine", engine);
    return entry;
}

static void survey_left(struct rpc_call *call)
{
    struct survey *survey = call->context;
    survey->done = NULL;
}

static void answer(struct survey *survey, json_t *(*describe)(const struct survey_entry *entry),
                   const struct error *failure)
{
    struct error err;
    struct rpc_call *call = survey->context;
    if (failure) {
        rpc_fail(call, failure);
        return;
    }
    if (survey->count == 0 && call->name && strcmp(call->namespace, "*") != 0) {
        error_set(&err, ERROR_NOT_FOUND, "there is no running sandbox named %s", call->name);
        rpc_fail_as(call, RPC_NO_SANDBOX, &err);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < survey->count; i++)
        json_array_append_new(list, describe(&survey->entries[i]));
    rpc_succeed(call, json_pack("{s:o}", "sandboxes", list));
}

static void on_list(struct survey *survey, const struct error *err)
{
    answer(survey, describe_for_list, err);
}

static void on_usage(struct survey *survey, const struct error *err)
{
    answer(survey, describe_usage, err);
}

static void begin(struct rpc_call *call, void (*done)(struct survey *, const struct error *))
{
    const char *namespace = strcmp(call->namespace, "*") == 0 ? NULL : call->namespace;
    call->left = survey_left;
    call->context = survey_begin(&call->server->boxes, namespace, call->name, done, call);
}

void method_list(struct rpc_call *call)
{
    begin(call, on_list);
}

void method_metrics(struct rpc_call *call)
{
    begin(call, on_usage);
}
