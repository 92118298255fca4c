/* …/sandbox/download and files, and /files/{session_id}/…: files of a session as it has them. */
#include <string.h>

#include "base/mem.h"
#include "server/context.h"
#include "server/files.h"
#include "server/rest.h"
#include "server/session_output.h"
#include "session/session_file.h"

#define PATH_LONGEST 4096

/* A file, or a list of a folder's entries, of a session that is waited for. */
struct looking {
    struct http_request *request;
    struct server *server;
    char *namespace, *path;
    const char *id; /* of the request */
    bool is_artifact;
    struct session_lease lease;   /* of a file */
    struct session_file *listing; /* of a folder */
};

static void looking_free(struct looking *looking)
{
    free(looking->namespace);
    free(looking->path);
    free(looking);
}

/* A path that leads nowhere is the same to whoever asks for an artifact, whatever is wrong. */
static void refuse(struct looking *looking, const struct session_failure *failure)
{
    struct session_failure told = *failure;
    struct http_request *request = looking->request;
    if (looking->is_artifact && told.kind == FAILURE_REQUEST)
        told.kind = FAILURE_NO_FILE;
    looking_free(looking);
    rest_refuse(request, &told);
}

static void on_gone(struct http_request *request)
{
    struct looking *looking = request->context;
    if (looking->listing)
        session_file_abandon(looking->listing);
    else
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

static void send_file(struct looking *looking)
{
    files_send(looking->request, session_client(&looking->lease),
               &(struct files_sending){.path = looking->path,
                                       .beneath = looking->is_artifact,
                                       .shown = looking->is_artifact,
                                       .max = looking->server->session_settings.max_download,
                                       .over = on_sent,
                                       .context = looking});
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct looking *looking = lease->context;
    if (failure)
        refuse(looking, failure);
    else
        send_file(looking);
}

static void begin_file(struct looking *looking, const struct session_request *request)
{
    struct session_failure failure;
    looking->lease.ready = on_ready;
    looking->lease.context = looking;
    int granted = session_acquire(looking->server->sessions, &looking->lease, request, &failure);
    if (granted < 0)
        refuse(looking, &failure);
    else if (granted > 0)
        send_file(looking);
}

/* ---- a folder ------------------------------------------------------------------------------ */

/* NULL for what is not told. */
static json_t *describe_entry(const struct looking *looking, const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    if (!type)
        return NULL;
    if (looking->is_artifact)
        return strcmp(type, "file") == 0
                   ? artifact_json(looking->request, looking->namespace, looking->id, record)
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

static json_t *describe_all(const struct looking *looking, json_t *entries)
{
    json_t *list = json_array(), *record;
    size_t index;
    json_array_foreach(entries, index, record)
    {
        plain_path(record);
        json_t *entry = describe_entry(looking, record);
        if (entry)
            json_array_append_new(list, entry);
    }
    return looking->is_artifact ? json_pack("{s:o}", "artifacts", list) : list;
}

static void on_listed(void *context, const struct file_result *result,
                      const struct session_failure *failure)
{
    struct looking *looking = context;
    struct http_request *request = looking->request;
    if (failure) {
        refuse(looking, failure);
        return;
    }
    json_t *list = describe_all(looking, result->entries);
    looking_free(looking);
    http_answer_json(request, 200, list);
}

static void begin_list(struct looking *looking, const struct session_request *request)
{
    struct session_failure failure;
    struct file_work work = {
        .operation = OP_FILE_LIST, .path = looking->path, .beneath = looking->is_artifact};
    looking->listing =
        session_file_start(looking->server->sessions, request, &work, on_listed, looking, &failure);
    if (!looking->listing)
        refuse(looking, &failure);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void look(struct http_request *request, char *path, bool is_artifact, bool is_list)
{
    struct session_failure failure;
    struct looking *looking = xcalloc(1, sizeof *looking);
    looking->request = request;
    looking->server = request->server->context;
    looking->path = path;
    looking->id = http_parameter(request, "session_id");
    looking->is_artifact = is_artifact;
    looking->namespace = rest_namespace(request, &failure);
    if (looking->namespace && strlen(path) > PATH_LONGEST) {
        error_set(&failure.cause, ERROR_INVALID, "the path is too long");
        failure_set(&failure, FAILURE_REQUEST, "path", NULL);
    } else if (looking->namespace) {
        struct session_request wanted = {
            .namespace = looking->namespace, .id = looking->id, .must_exist = true, .shared = true};
        request->context = looking;
        request->gone = on_gone;
        (is_list ? begin_list : begin_file)(looking, &wanted);
        return;
    }
    refuse(looking, &failure);
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
