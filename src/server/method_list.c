/* sandbox.list and sandbox.metrics.get: every keeper is asked, and all answers make one. */
#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/mem.h"
#include "sandbox/state.h"
#include "server/rpc.h"

#define ANSWER_MS 3000

struct survey;

struct question {
    struct survey *survey;
    struct client_call operation;
    char *namespace, *name;
    json_t *entry; /* NULL: it ended meanwhile */
};

struct survey {
    struct rpc_call *call; /* NULL: answered, or the client has left */
    uv_timer_t patience;
    struct question *questions;
    size_t count, open; /* open: questions, and one while they are asked */
    bool timer_closed;
    json_t *(*describe)(const struct question *question, const json_t *status);
};

static void free_when_over(struct survey *survey)
{
    if (survey->open > 0 || !survey->timer_closed)
        return;
    for (size_t i = 0; i < survey->count; i++) {
        free(survey->questions[i].namespace);
        free(survey->questions[i].name);
        json_decref(survey->questions[i].entry);
    }
    free(survey->questions);
    free(survey);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct survey *survey = handle->data;
    survey->timer_closed = true;
    free_when_over(survey);
}

static void conclude(struct survey *survey)
{
    struct rpc_call *call = steal_pointer(&survey->call);
    json_t *list = json_array();
    for (size_t i = 0; i < survey->count; i++) {
        if (survey->questions[i].entry)
            json_array_append(list, survey->questions[i].entry);
    }
    if (call)
        rpc_succeed(call, json_pack("{s:o}", "sandboxes", list));
    else
        json_decref(list);
    if (!uv_is_closing((uv_handle_t *)&survey->patience))
        uv_close((uv_handle_t *)&survey->patience, on_timer_closed);
}

static void survey_left(struct rpc_call *call)
{
    struct survey *survey = call->context;
    survey->call = NULL;
}

static void on_impatient(uv_timer_t *timer)
{
    conclude(timer->data);
}

static void settle(struct survey *survey)
{
    if (--survey->open == 0)
        conclude(survey);
    free_when_over(survey);
}

static void on_answer(struct client_call *operation, const struct outcome *outcome)
{
    struct question *question = operation->context;
    struct survey *survey = question->survey;
    json_t *status = outcome->status ? json_loads(outcome->status, 0, NULL) : NULL;
    json_decref(question->entry);
    question->entry = status ? survey->describe(question, status) : NULL;
    json_decref(status);
    settle(survey);
}

static void ask(struct survey *survey, struct question *question, const struct state_entry *entry)
{
    static const struct call_handlers handlers = {.end = on_answer};
    struct error ignored;
    struct box *box =
        boxes_find(&survey->call->server->boxes, entry->namespace, entry->name, &ignored);
    *question = (struct question){
        .survey = survey, .namespace = xstrdup(entry->namespace), .name = xstrdup(entry->name)};
    if (!box)
        return;
    /* What is said of one that does not answer in time. */
    question->entry = survey->describe(question, NULL);
    survey->open++;
    call_start(&box->client, &question->operation, OP_STATUS, NULL, &handlers, question);
}

static void ask_all(struct survey *survey, const struct state_entry *entries, size_t count)
{
    const char *wanted = survey->call->name;
    survey->questions = xcalloc(count + 1, sizeof *survey->questions);
    for (size_t i = 0; i < count; i++) {
        if (!wanted || strcmp(entries[i].name, wanted) == 0)
            ask(survey, &survey->questions[survey->count++], &entries[i]);
    }
}

static void survey_begin(struct rpc_call *call,
                         json_t *(*describe)(const struct question *, const json_t *))
{
    struct error err;
    struct state_entry *entries;
    size_t count;
    bool all = strcmp(call->namespace, "*") == 0;
    if (state_list(all ? NULL : call->namespace, &entries, &count, &err) < 0) {
        rpc_fail(call, &err);
        return;
    }
    struct survey *survey = xcalloc(1, sizeof *survey);
    *survey = (struct survey){.call = call, .describe = describe, .open = 1};
    call->context = survey;
    call->left = survey_left;
    uv_timer_init(&call->server->loop, &survey->patience);
    survey->patience.data = survey;
    uv_timer_start(&survey->patience, on_impatient, ANSWER_MS, 0);
    ask_all(survey, entries, count);
    state_list_free(entries, count);
    if (survey->count == 0 && call->name && !all) {
        error_set(&err, ERROR_NOT_FOUND, "there is no running sandbox named %s", call->name);
        survey->call = NULL;
        rpc_fail_as(call, RPC_NO_SANDBOX, &err);
    }
    settle(survey);
}

static json_t *describe_for_list(const struct question *question, const json_t *status)
{
    static const char *const shown[] = {"image",     "engine",     "state",    "cpus",
                                        "memory_mb", "started_us", "language", "ports"};
    json_t *entry = json_pack("{s:s, s:s, s:s}", "namespace", question->namespace, "name",
                              question->name, "state", status ? "running" : "unresponsive");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        json_t *value = json_object_get(status, shown[i]);
        if (value)
            json_object_set(entry, shown[i], value);
    }
    return entry;
}

static json_t *describe_usage(const struct question *question, const json_t *status)
{
    struct stat disk;
    cleanup_free char *path =
        home_path("sandboxes/%s/%s/disk", question->namespace, question->name);
    json_t *memory = json_object_get(status, "host_memory");
    json_t *processor = json_object_get(status, "cpu_percent");
    json_t *entry =
        json_pack("{s:s, s:s, s:b, s:n, s:n, s:n}", "namespace", question->namespace, "name",
                  question->name, "running", 1, "cpu_usage", "memory_usage", "disk_usage");
    if (processor)
        json_object_set(entry, "cpu_usage", processor);
    if (memory)
        json_object_set_new(entry, "memory_usage", json_integer(json_integer_value(memory) >> 20));
    if (stat(path, &disk) == 0)
        json_object_set_new(entry, "disk_usage", json_integer((json_int_t)disk.st_blocks * 512));
    return entry;
}

void method_list(struct rpc_call *call)
{
    survey_begin(call, describe_for_list);
}

void method_metrics(struct rpc_call *call)
{
    survey_begin(call, describe_usage);
}
