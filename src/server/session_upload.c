/*
 * …/sandbox/upload: files that come in, as parts of a form or as the body itself. Bytes go on to
 * the sandbox as it takes them; a file appears when all of it is there.
 */
#include <string.h>

#include "base/mem.h"
#include "sandbox/client.h"
#include "sandbox/requests.h"
#include "server/context.h"
#include "server/http/multipart.h"
#include "server/rest.h"

#define FOLDER_DEFAULT "/home/user"
#define FILES_MAX 100
/* What the form may have around its files. */
#define FORM_ROOM (1u << 20)

struct upload {
    struct session_lease lease;
    struct http_request *request; /* NULL: answered, or the client has left */
    struct server *server;
    char *folder; /* where files of a form go; of a body the folder or the file */
    struct multipart multipart;
    bool is_form, is_ready, has_ended, is_over;
    bool wants_more; /* the form is not at its end, as far as it came */
    bool is_pumping; /* further up the stack */
    struct buf in;   /* came, not dealt with yet */
    /* The file under way. */
    struct client_call call;
    bool is_writing, is_skipping, is_complete;
    char *path;
    uint64_t size;
    json_t *files;
};

static void pump(struct upload *upload);

static void free_when_over(struct upload *upload)
{
    if (upload->request || upload->is_writing || upload->is_pumping)
        return;
    if (upload->lease.session && upload->is_ready)
        session_release(&upload->lease, false);
    else if (upload->lease.session)
        session_abandon(&upload->lease);
    buf_free(&upload->in);
    json_decref(upload->files);
    free(upload->folder);
    free(upload->path);
    free(upload);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void end_request(struct upload *upload)
{
    upload->request = NULL;
    if (upload->is_writing)
        call_cancel(&upload->call);
}

static void fail(struct upload *upload, const struct session_failure *failure)
{
    struct http_request *request = upload->request;
    end_request(upload);
    rest_refuse(request, failure);
}

static void fail_with(struct upload *upload, enum failure_kind kind, const char *detail,
                      const struct error *err)
{
    struct session_failure failure;
    const char *id = http_parameter(upload->request, "session_id");
    failure_wrap(&failure, kind, detail, id, err);
    if (upload->path)
        failure_set_subject(&failure, upload->path);
    fail(upload, &failure);
}

/* One file is told as such, several as a list beside the last of them. */
static void succeed(struct upload *upload)
{
    struct http_request *request = upload->request;
    size_t count = json_array_size(upload->files);
    json_t *answer = json_copy(json_array_get(upload->files, count - 1));
    if (count > 1)
        json_object_set(answer, "files", upload->files);
    end_request(upload);
    http_answer_json(request, 200, answer);
}

/* ---- a file -------------------------------------------------------------------------------- */

static void on_room(struct client_call *call)
{
    pump(call->context);
}

static void on_written(struct client_call *call, const struct outcome *outcome)
{
    struct upload *upload = call->context;
    upload->is_writing = false;
    if (upload->request && outcome->error.code != ERROR_NONE) {
        fail_with(upload, FAILURE_NONE, "path", &outcome->error);
    } else if (upload->request) {
        json_array_append_new(upload->files,
                              json_pack("{s:s, s:I, s:b}", "path", upload->path, "size",
                                        (json_int_t)upload->size, "is_directory", 0));
        pump(upload);
        return;
    }
    free_when_over(upload);
}

static int begin_file(struct upload *upload, const char *path, struct error *err)
{
    static const struct call_handlers handlers = {.room = on_room, .end = on_written};
    cleanup_buf struct buf fields = {0};
    struct sandbox_client *client = session_client(&upload->lease);
    if (!client)
        return error_set(err, ERROR_UNAVAILABLE, "the sandbox has ended");
    if (json_array_size(upload->files) >= FILES_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d files can be sent at once", FILES_MAX);
    free(upload->path);
    upload->path = xstrdup(path);
    upload->size = 0;
    upload->is_writing = true;
    upload->is_complete = false;
    file_request_fields(&fields, &(struct file_request){.path = path, .parents = true});
    call_start(client, &upload->call, OP_FILE_WRITE, &fields, &handlers, upload);
    return 0;
}

/* The last part of what a client calls its file. */
static int begin_part(struct upload *upload, struct error *err)
{
    const char *name = upload->multipart.filename;
    upload->is_skipping = !name[0];
    if (upload->is_skipping)
        return 0;
    for (const char *at = name; *at; at++) {
        if (*at == '/' || *at == '\\')
            name = at + 1;
    }
    if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return error_set(err, ERROR_INVALID, "\"%.100s\" is no name for a file",
                         upload->multipart.filename);
    cleanup_free char *path = xasprintf("%s/%s", upload->folder, name);
    return begin_file(upload, path, err);
}

static void end_file(struct upload *upload)
{
    if (upload->is_writing)
        call_send_eof(&upload->call);
    upload->is_complete = true;
    upload->is_skipping = false;
}

/* At most as much as the sandbox takes now. */
static size_t pass_on(struct upload *upload, size_t length)
{
    if (upload->is_skipping)
        return length;
    if (length > upload->call.room)
        length = (size_t)upload->call.room;
    call_send(&upload->call, buf_data(&upload->in), length);
    upload->size += length;
    return length;
}

/* ---- the body ------------------------------------------------------------------------------ */

static void consume(struct upload *upload, size_t length)
{
    buf_consume(&upload->in, length);
    if (length > 0 && upload->request)
        http_consumed(upload->request, length);
}

/* One step of a form; false when it has to wait. */
static bool step_form(struct upload *upload, struct error *err, int *result)
{
    size_t used;
    int event = multipart_next(&upload->multipart, buf_data(&upload->in), buf_length(&upload->in),
                               &used, err);
    *result = event < 0 ? -1 : 0;
    upload->wants_more = event == MULTIPART_MORE;
    if (event < 0 || event == MULTIPART_MORE)
        return false;
    if (event == MULTIPART_BYTES)
        used = pass_on(upload, used);
    else if (event == MULTIPART_PART)
        *result = begin_part(upload, err);
    else if (event == MULTIPART_PART_END)
        end_file(upload);
    upload->is_over |= event == MULTIPART_END;
    consume(upload, used);
    return *result == 0 && used > 0;
}

static bool step_plain(struct upload *upload)
{
    size_t used = pass_on(upload, buf_length(&upload->in));
    consume(upload, used);
    if (buf_length(&upload->in) == 0 && upload->has_ended && !upload->is_complete) {
        end_file(upload);
        upload->is_over = true;
    }
    return used > 0;
}

static int check_size(struct upload *upload, struct error *err)
{
    uint64_t max = upload->server->session_settings.max_upload;
    if (upload->size <= max)
        return 0;
    error_set(err, ERROR_LIMIT, "the file is longer than %llu bytes", (unsigned long long)max);
    return -1;
}

static int finish(struct upload *upload, struct error *err)
{
    if (upload->has_ended && upload->wants_more && !upload->is_over)
        return error_set(err, ERROR_INVALID, "the body ends in the middle of the form");
    if (!upload->has_ended || upload->is_writing || !upload->is_over)
        return 0;
    if (json_array_size(upload->files) == 0)
        return error_set(err, ERROR_INVALID, "the form has no file");
    succeed(upload);
    return 0;
}

/* A file that is complete is waited for before the next one begins. */
static void pump(struct upload *upload)
{
    struct error err;
    int result = 0;
    bool goes_on = upload->is_ready && !upload->is_pumping;
    if (!goes_on)
        return;
    upload->is_pumping = true;
    while (goes_on && upload->request && !(upload->is_writing && upload->is_complete)) {
        goes_on = upload->is_form ? step_form(upload, &err, &result) : step_plain(upload);
        if (result == 0 && check_size(upload, &err) < 0) {
            fail_with(upload, FAILURE_UPLOAD_TOO_LARGE, NULL, &err);
            break;
        }
    }
    if (upload->request && result == 0)
        result = finish(upload, &err);
    if (upload->request && result < 0)
        fail_with(upload, FAILURE_NONE, err.code == ERROR_INVALID ? "content" : NULL, &err);
    upload->is_pumping = false;
    free_when_over(upload);
}

static void on_body(struct http_request *request, const uint8_t *bytes, size_t length)
{
    struct upload *upload = request->context;
    buf_append(&upload->in, bytes, length);
    pump(upload);
}

static void on_body_end(struct http_request *request)
{
    struct upload *upload = request->context;
    upload->has_ended = true;
    pump(upload);
}

static void on_gone(struct http_request *request)
{
    struct upload *upload = request->context;
    upload->request = NULL;
    if (upload->is_writing)
        call_cancel(&upload->call);
    free_when_over(upload);
}

/* ---- the session --------------------------------------------------------------------------- */

static void begin(struct upload *upload)
{
    struct error err;
    upload->is_ready = true;
    if (!upload->is_form && begin_file(upload, upload->folder, &err) < 0)
        fail_with(upload, FAILURE_NONE, NULL, &err);
    pump(upload);
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct upload *upload = lease->context;
    if (!failure) {
        begin(upload);
        return;
    }
    fail(upload, failure);
    free_when_over(upload);
}

/* Where it goes: ?path= is a folder, and with a plain body and no ?filename= the file. */
static int choose_place(struct upload *upload, struct session_failure *failure)
{
    cleanup_free char *filename = http_query(upload->request, "filename");
    upload->folder = http_query(upload->request, "path");
    bool is_file = !upload->is_form && upload->folder && !filename;
    if (!upload->folder)
        upload->folder = xstrdup(FOLDER_DEFAULT);
    if (!upload->is_form && filename && !strchr(filename, '/')) {
        char *path = xasprintf("%s/%s", upload->folder, filename);
        free(upload->folder);
        upload->folder = path;
        is_file = true;
    }
    if (upload->folder[0] && strlen(upload->folder) < 4096 && (upload->is_form || is_file))
        return 0;
    error_set(&failure->cause, ERROR_INVALID, "where is the file to go?");
    error_hint(&failure->cause, "give ?path=/home/user/NAME, or send a form");
    return failure_set(failure, FAILURE_REQUEST, "filename", NULL);
}

static int acquire(struct upload *upload, struct session_failure *failure)
{
    struct http_request *request = upload->request;
    if (choose_place(upload, failure) < 0)
        return -1;
    cleanup_free char *namespace = rest_namespace(request, failure);
    if (!namespace)
        return -1;
    return session_acquire(upload->server->sessions, &upload->lease,
                           &(struct session_request){.namespace = namespace,
                                                     .id = http_parameter(request, "session_id"),
                                                     .lifetime_s = rest_lifetime(upload->server),
                                                     .shared = true},
                           failure);
}

void session_rest_upload(struct http_request *request)
{
    struct session_failure failure;
    struct upload *upload = xcalloc(1, sizeof *upload);
    upload->request = request;
    upload->server = request->server->context;
    upload->is_form = multipart_init(&upload->multipart, http_header(request, "Content-Type"));
    upload->files = json_array();
    upload->lease.ready = on_ready;
    upload->lease.context = upload;
    request->body_max = (upload->server->session_settings.max_upload + FORM_ROOM) *
                        (upload->is_form ? FILES_MAX : 1);
    int granted = acquire(upload, &failure);
    request->context = upload;
    request->gone = on_gone;
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    if (granted < 0)
        fail(upload, &failure);
    if (granted > 0)
        begin(upload);
    else if (granted < 0)
        free_when_over(upload);
}
