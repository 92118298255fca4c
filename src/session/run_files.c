/* Which files of the data folder, the sandbox's working folder, a run has made or changed. */
#include <string.h>

#include "base/mem.h"
#include "sandbox/requests.h"
#include "session/run_internal.h"

#define FILES_MAX 1000
/* A folder with more entries is not looked at. */
#define LOOK_MAX 20000

/* "./a/b" is told as "a/b"; folders and what was removed are not told. */
static void take_change(struct session_run *run, json_t *record)
{
    const char *change = json_string_value(json_object_get(record, "change"));
    const char *type = json_string_value(json_object_get(record, "type"));
    const char *path = json_string_value(json_object_get(record, "path"));
    if (!change || !type || !path || strcmp(type, "file") != 0 || strcmp(change, "removed") == 0 ||
        json_array_size(run->files) >= FILES_MAX)
        return;
    cleanup_free char *plain = xstrdup(strncmp(path, "./", 2) == 0 ? path + 2 : path);
    json_object_set_new(record, "path", json_string(plain));
    json_array_append(run->files, record);
}

static void begin_run(struct session_run *run)
{
    struct sandbox_client *client = session_client(&run->lease);
    if (client)
        run_begin(run, client);
    else
        run_lose(run);
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct session_run *run = call->context;
    call_consumed(call, length);
    if (channel != CHANNEL_RESULTS)
        return;
    records_feed(&run->change_records, bytes, length);
    bool was_ready = run->is_ready;
    for (json_t *record; (record = records_next(&run->change_records)); json_decref(record)) {
        const char *change = json_string_value(json_object_get(record, "change"));
        if (was_ready)
            take_change(run, record);
        else if (change && strcmp(change, "ready") == 0)
            run->is_ready = true;
    }
    if (run->is_ready && !was_ready && run->ended)
        begin_run(run);
}

/* A folder that cannot be looked at, such as one with too many entries, is no reason not to run. */
static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct session_run *run = call->context;
    run->is_watching = false;
    if (run->is_running)
        return;
    if (run->is_ready) {
        run_finish(run);
    } else if (run->ended) {
        begin_run(run);
    } else {
        run->outcome = outcome_error(&outcome->error);
        run_finish(run);
    }
}

void run_files_begin(struct session_run *run, struct sandbox_client *client)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    cleanup_buf struct buf fields = {0};
    run->files = json_array();
    run->is_watching = true;
    file_request_fields(&fields, &(struct file_request){.path = ".", .limit = LOOK_MAX});
    call_start(client, &run->changes, OP_FILE_CHANGES, &fields, &handlers, run);
}

void run_files_end(struct session_run *run)
{
    if (run->outcome.verdict == VERDICT_ERROR || !run->ended)
        call_cancel(&run->changes);
    else
        call_send_eof(&run->changes);
}
