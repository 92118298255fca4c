#include "session/session_file.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/records.h"
#include "sandbox/requests.h"

#define BYTES_DEFAULT (16u << 20)
#define ENTRIES_DEFAULT 10000
#define RECORD_BYTES_MAX (16u << 20)
#define PATH_LONGEST 4096

struct session_file {
    struct session_lease lease;
    file_ended *ended; /* NULL: abandoned */
    void *context;
    enum operation operation;
    char *path;
    bool beneath;
    unsigned depth;
    bool partial;
    uint64_t max;
    struct client_call call;
    bool is_running, is_too_long;
    uint64_t taken;     /* bytes */
    struct buf content; /* to be written, or read */
    struct records incoming;
    json_t *entries;
};

static void file_free(struct session_file *file)
{
    buf_free(&file->content);
    records_free(&file->incoming);
    json_decref(file->entries);
    free(file->path);
    free(file);
}

/* What the sandbox sends is bounded here, whatever it was asked for. */
static void take(struct session_file *file, enum channel channel, const uint8_t *bytes,
                 size_t length)
{
    file->taken += length;
    if (channel == CHANNEL_RESULTS) {
        records_feed(&file->incoming, bytes, length);
        for (json_t *record; (record = records_next(&file->incoming));)
            json_array_append_new(file->entries, record);
        file->is_too_long = file->taken > RECORD_BYTES_MAX;
    } else if (file->operation == OP_FILE_READ) {
        file->is_too_long = file->taken > file->max;
        buf_append(&file->content, bytes, length);
    }
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct session_file *file = call->context;
    call_consumed(call, length);
    if (file->is_too_long)
        return;
    take(file, channel, bytes, length);
    if (file->is_too_long)
        call_cancel(call);
}

static void tell(struct session_file *file, const struct error *err)
{
    struct session_failure failure;
    const char *id = session_id(file->lease.session);
    struct error too_long;
    bool is_cut = file->partial && err->code == ERROR_LIMIT;
    if (file->is_too_long) {
        error_set(&too_long, ERROR_LIMIT, "%.400s is too large to be had at once", file->path);
        failure_wrap(&failure, FAILURE_FILE_TOO_LARGE, NULL, id, &too_long);
    } else if (err->code != ERROR_NONE && !is_cut) {
        failure_wrap(&failure, FAILURE_NONE, "path", id, err);
    } else {
        file->ended(file->context,
                    &(struct file_result){.content = buf_data(&file->content),
                                          .length = buf_length(&file->content),
                                          .is_cut = is_cut,
                                          .entries = file->entries},
                    NULL);
        return;
    }
    failure_set_subject(&failure, file->path);
    file->ended(file->context, NULL, &failure);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct session_file *file = call->context;
    if (file->ended)
        tell(file, &outcome->error);
    session_release(&file->lease, false);
    file_free(file);
}

static void begin(struct session_file *file, struct sandbox_client *client)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    cleanup_buf struct buf fields = {0};
    bool is_write = file->operation == OP_FILE_WRITE;
    struct file_request request = {
        .path = file->path, .beneath = file->beneath, .parents = is_write};
    if (file->operation == OP_FILE_LIST) {
        request.limit = file->max;
        request.depth = file->depth;
    }
    file_request_fields(&fields, &request);
    file->is_running = true;
    call_start(client, &file->call, file->operation, &fields, &handlers, file);
    if (is_write)
        call_give(&file->call, buf_data(&file->content), buf_length(&file->content));
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct session_file *file = lease->context;
    struct sandbox_client *client = failure ? NULL : session_client(lease);
    if (client) {
        begin(file, client);
        return;
    }
    if (failure) {
        file->ended(file->context, NULL, failure);
    } else {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox has ended");
        tell(file, &err);
        session_release(lease, false);
    }
    file_free(file);
}

static struct session_file *file_new(const struct file_work *work, file_ended *ended, void *context)
{
    struct session_file *file = xcalloc(1, sizeof *file);
    uint64_t fallback = work->operation == OP_FILE_LIST ? ENTRIES_DEFAULT : BYTES_DEFAULT;
    file->ended = ended;
    file->context = context;
    file->operation = work->operation;
    file->path = xstrdup(work->path[0] ? work->path : ".");
    file->beneath = work->beneath;
    file->depth = work->depth;
    file->partial = work->partial;
    file->max = work->max ? work->max : fallback;
    file->entries = json_array();
    file->lease.ready = on_ready;
    file->lease.context = file;
    buf_append(&file->content, work->content, work->length);
    return file;
}

struct session_file *session_file_start(struct sessions *sessions,
                                        const struct session_request *request,
                                        const struct file_work *work, file_ended *ended,
                                        void *context, struct session_failure *failure)
{
    struct session_request shared = *request;
    if (strlen(work->path) > PATH_LONGEST) {
        error_set(&failure->cause, ERROR_INVALID, "the path is too long");
        failure_set(failure, FAILURE_REQUEST, "path", request->id);
        return NULL;
    }
    struct session_file *file = file_new(work, ended, context);
    shared.shared = true;
    int granted = session_acquire(sessions, &file->lease, &shared, failure);
    if (granted < 0) {
        file_free(file);
        return NULL;
    }
    if (granted)
        begin(file, session_client(&file->lease));
    return file;
}

void session_file_abandon(struct session_file *file)
{
    file->ended = NULL;
    if (file->is_running) {
        call_cancel(&file->call);
        return;
    }
    session_abandon(&file->lease);
    file_free(file);
}
