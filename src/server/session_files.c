/* …/sandbox/download and files, and /files/{session_id}/…: files of a session as it has them. */
#include <string.h>

#include "base/mem.h"
#include "sandbox/collect.h"
#include "sandbox/requests.h"
#include "server/content_type.h"
#include "server/context.h"
#include "server/files.h"
#include "server/rest.h"
#include "server/session_output.h"

#define ENTRIES_MAX 10000

/* A file, or a list of a folder's entries, of a session that is waited for. */
struct looking {
    struct session_lease lease;
    struct http_request *request; /* NULL: the client has left */
    struct server *server;
    char *path;
    bool is_artifact, is_list;
    struct collection listing;
    bool is_listing;
};

static void looking_free(struct looking *looking)
{
    collect_free(&looking->listing);
    free(looking->path);
    free(looking);
}

/* A path that leads nowhere is the same to whoever asks for an artifact, whatever is wrong. */
static void refuse(const struct looking *looking, struct http_request *request,
                   struct session_failure *failure)
{
    if (looking->is_artifact && failure->kind == FAILURE_REQUEST)
        failure->kind = FAILURE_NO_FILE;
    rest_refuse(request, failure);
}

static void on_gone(struct http_request *request)
{
    struct looking *looking = request->context;
    looking->request = NULL;
    if (looking->is_listing) {
        call_cancel(&looking->listing.call);
        return;
    }
    session_abandon(&looking->lease);
    looking_free(looking);
}

/* ---- one file ------------------------------------------------------------------------------ */

static void on_sent(void *context)
{
    struct looking *looking = context;
    session_release(&looking->lease, false);
    looking_free(looking);
}

static void send_file(struct looking *looking, struct sandbox_client *client)
{
    files_send(looking->request, client,
               &(struct files_sending){.path = looking->path,
                                       .beneath = looking->is_artifact,
                                       .shown = looking->is_artifact,
                                       .max = looking->server->session_settings.max_download,
                                       .over = on_sent,
                                       .context = looking});
}

/* ---- a folder ------------------------------------------------------------------------------ */

static json_t *describe_entry(const struct looking *looking, const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const struct session *session = looking->lease.session;
    if (looking->is_artifact)
        return strcmp(type, "file") == 0
                   ? artifact_json(looking->request, session_namespace(session),
                                   session_id(session), record)
                   : NULL;
    return json_pack("{s:O, s:O, s:O, s:b, s:O}", "name", json_object_get(record, "name"), "path",
                     json_object_get(record, "path"), "size", json_object_get(record, "size"),
                     "is_directory", strcmp(type, "folder") == 0, "modified_us",
                     json_object_get(record, "mtime_us"));
}

/* Paths of artifacts are below the data folder: without "./" in front. */
static void plain_path(json_t *record)
{
    const char *path = json_string_value(json_object_get(record, "path"));
    if (path && strncmp(path, "./", 2) == 0) {
        cleanup_free char *plain = xstrdup(path + 2);
        json_object_set_new(record, "path", json_string(plain));
    }
}

static json_t *describe_all(struct looking *looking)
{
    json_t *list = json_array(), *record;
    size_t index;
    json_array_foreach(looking->listing.records, index, record)
    {
        if (!json_is_string(json_object_get(record, "type")))
            continue;
        plain_path(record);
        json_t *entry = describe_entry(looking, record);
        if (entry)
            json_array_append_new(list, entry);
    }
    return looking->is_artifact ? json_pack("{s:o}", "artifacts", list) : list;
}

static void on_listed(struct collection *listing, const struct outcome *outcome)
{
    struct looking *looking = listing->context;
    struct http_request *request = looking->request;
    if (request)
        request->gone = NULL;
    if (request && outcome->error.code != ERROR_NONE) {
        struct session_failure failure;
        failure_wrap(&failure, FAILURE_NONE, "path", session_id(looking->lease.session),
                     &outcome->error);
        refuse(looking, request, &failure);
    } else if (request) {
        json_t *json = describe_all(looking);
        cleanup_free char *text = json_dumps(json, JSON_COMPACT);
        json_decref(json);
        http_answer(request, 200, "application/json", text, strlen(text));
    }
    session_release(&looking->lease, false);
    looking_free(looking);
}

static void send_list(struct looking *looking, struct sandbox_client *client)
{
    cleanup_buf struct buf fields = {0};
    struct file_request request = {.path = looking->path[0] ? looking->path : ".",
                                   .limit = ENTRIES_MAX,
                                   .beneath = looking->is_artifact};
    looking->is_listing = true;
    looking->listing.ended = on_listed;
    looking->listing.context = looking;
    file_request_fields(&fields, &request);
    collect_start(&looking->listing, client, OP_FILE_LIST, &fields, NULL, 0);
}

/* ---- the session --------------------------------------------------------------------------- */

static void begin(struct looking *looking)
{
    struct sandbox_client *client = session_client(&looking->lease);
    if (looking->is_list)
        send_list(looking, client);
    else
        send_file(looking, client);
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct looking *looking = lease->context;
    if (!failure) {
        begin(looking);
        return;
    }
    struct session_failure told = *failure;
    struct http_request *request = looking->request;
    request->gone = NULL;
    refuse(looking, request, &told);
    looking_free(looking);
}

static int acquire(struct looking *looking, struct session_failure *failure)
{
    struct http_request *request = looking->request;
    cleanup_free char *namespace = rest_namespace(request, failure);
    const char *id = http_parameter(request, "session_id");
    if (!namespace)
        return -1;
    if (strlen(looking->path) > 4096) {
        error_set(&failure->cause, ERROR_INVALID, "the path is too long");
        failure->cause.hint[0] = '\0';
        return failure_set(failure, FAILURE_REQUEST, "path", NULL);
    }
    return session_acquire(
        looking->server->sessions, &looking->lease,
        &(struct session_request){
            .namespace = namespace, .id = id, .must_exist = true, .shared = true},
        failure);
}

static void look(struct http_request *request, char *path, bool is_artifact, bool is_list)
{
    struct session_failure failure;
    struct looking *looking = xcalloc(1, sizeof *looking);
    looking->request = request;
    looking->server = request->server->context;
    looking->path = path;
    looking->is_artifact = is_artifact;
    looking->is_list = is_list;
    looking->lease.ready = on_ready;
    looking->lease.context = looking;
    int granted = acquire(looking, &failure);
    if (granted < 0) {
        refuse(looking, request, &failure);
        looking_free(looking);
        return;
    }
    request->context = looking;
    request->gone = on_gone;
    if (granted)
        begin(looking);
}

void session_rest_download(struct http_request *request)
{
    struct session_failure failure;
    char *path = http_query(request, "path");
    if (path && path[0]) {
        look(request, path, false, false);
        return;
    }
    free(path);
    error_set(&failure.cause, ERROR_INVALID, "which file? ?path= is missing");
    failure.cause.hint[0] = '\0';
    failure_set(&failure, FAILURE_REQUEST, "path", NULL);
    rest_refuse(request, &failure);
}

void session_rest_files(struct http_request *request)
{
    char *path = http_query(request, "path");
    look(request, path ? path : xstrdup("/home/user"), false, true);
}

void artifacts_get(struct http_request *request)
{
    const char *path = http_parameter(request, "*");
    size_t length = path ? strlen(path) : 0;
    look(request, xstrdup(path ? path : ""), true, length == 0 || path[length - 1] == '/');
}
