/* Files of sessions: sandbox_upload_file, sandbox_list_artifacts, sandbox_read_artifact. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "server/base64.h"
#include "server/content_type.h"
#include "server/tools/internal.h"
#include "session/session_file.h"

#define NAME_MAX_LENGTH 255
/* Of a text, at once. */
#define TEXT_MAX (64u << 10)
/* In base64, within an answer. */
#define BINARY_MAX (2u << 20)

/* One call: an upload looks whether the file is there before it writes. */
struct file_call {
    struct mcp_call *call;
    struct session_file *file;
    char namespace[64];
    char *session, *path;
    struct buf content;
    uint64_t offset;
    json_t *(*answer)(const struct file_call *work, const struct file_result *result);
};

static void file_call_free(struct file_call *work)
{
    buf_free(&work->content);
    free(work->session);
    free(work->path);
    free(work);
}

static void on_cancelled(struct mcp_call *call)
{
    struct file_call *work = call->context;
    session_file_abandon(work->file);
    file_call_free(work);
}

static void end(struct file_call *work, json_t *answer)
{
    struct mcp_call *call = work->call;
    call->cancelled = NULL;
    file_call_free(work);
    mcp_succeed(call, answer);
}

static void on_ended(void *context, const struct file_result *result,
                     const struct session_failure *failure)
{
    struct file_call *work = context;
    end(work, failure ? answer_failure(failure) : work->answer(work, result));
}

static void start(struct file_call *work, enum operation operation, bool must_exist,
                  file_ended *ended)
{
    struct session_failure failure;
    struct server *server = tools_server(work->call);
    struct session_request request = {.namespace = work->namespace,
                                      .id = work->session,
                                      .must_exist = must_exist,
                                      .template = must_exist ? NULL : "python"};
    work->call->context = work;
    work->call->cancelled = on_cancelled;
    work->file = session_file_start(server->sessions, &request,
                                    &(struct file_work){
                                        .operation = operation,
                                        .path = work->path,
                                        .beneath = operation != OP_FILE_WRITE,
                                        .content = buf_data(&work->content),
                                        .length = buf_length(&work->content),
                                        .max = operation == OP_FILE_READ ? ARTIFACT_MAX : 0,
                                    },
                                    ended, work, &failure);
    if (!work->file)
        end(work, answer_failure(&failure));
}

/* NULL: the call is answered. */
static struct file_call *begin(struct mcp_call *call, const json_t *arguments, bool needs_session)
{
    struct error err;
    struct session_failure failure;
    const char *session = NULL;
    int result = tools_begin(tools_server(call), &err);
    if (result < 0)
        failure_wrap(&failure, FAILURE_NONE, NULL, NULL, &err);
    else if (needs_session)
        result = tools_need_text(arguments, "session_id", &session, &failure);
    else
        result = tools_text(arguments, "session_id", &session, &failure);
    if (result == 0 && session)
        result = session_check_id(session, &failure);
    if (result < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return NULL;
    }
    struct file_call *work = xcalloc(1, sizeof *work);
    work->call = call;
    work->session = session ? xstrdup(session) : NULL;
    snprintf(work->namespace, sizeof work->namespace, "%s", tools_namespace(call));
    tools_note(call, work->namespace, session ? session : "");
    return work;
}

static void refuse(struct file_call *work, enum failure_kind kind, const char *detail,
                   const char *what, const char *remedy)
{
    struct error err;
    struct session_failure failure;
    error_set(&err, ERROR_INVALID, "%s", what);
    error_hint(&err, "%s", remedy);
    failure_wrap(&failure, kind, detail, work->session, &err);
    end(work, answer_failure(&failure));
}

/* ---- upload --------------------------------------------------------------------------------- */

static bool is_file_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LENGTH || strstr(name, "..") || strcmp(name, ".") == 0)
        return false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            return false;
    }
    return true;
}

static json_t *tell_uploaded(const struct file_call *work, const struct file_result *result)
{
    (void)result;
    return answer_data(json_pack("{s:s, s:s}", "session_id", work->session, "path", work->path));
}

static void on_looked(void *context, const struct file_result *result,
                      const struct session_failure *failure)
{
    struct file_call *work = context;
    if (result)
        refuse(work, FAILURE_REQUEST, "exists", "there is a file of that name already",
               "use another name, or set \"overwrite\" to true");
    else if (failure->kind == FAILURE_NO_FILE)
        start(work, OP_FILE_WRITE, true, on_ended);
    else
        end(work, answer_failure(failure));
}

/* False: the call is answered. */
static bool take_content(struct file_call *work, const json_t *arguments)
{
    const char *text = json_string_value(json_object_get(arguments, "content"));
    const json_t *encoded = json_object_get(arguments, "content_base64");
    uint64_t max = tools_server(work->call)->session_settings.max_upload;
    if (text && !encoded)
        buf_append_text(&work->content, text);
    if ((!text && !encoded) || (encoded && (!json_is_string(encoded) ||
                                            base64_take(&work->content, json_string_value(encoded),
                                                        json_string_length(encoded)) < 0))) {
        refuse(work, FAILURE_REQUEST, "content", "\"content_base64\" is no base64",
               "encode the whole content, without line ends, or give \"content\" as plain text");
        return false;
    }
    if (buf_length(&work->content) <= max)
        return true;
    refuse(work, FAILURE_UPLOAD_TOO_LARGE, NULL, "the file is too large", "send a smaller one");
    return false;
}

static char *new_session_id(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    return xasprintf("sess_%012llx", (unsigned long long)(number & 0xffffffffffff));
}

void tool_upload_file(struct mcp_call *call, const json_t *arguments)
{
    struct file_call *work = begin(call, arguments, false);
    const char *name = json_string_value(json_object_get(arguments, "filename"));
    if (!work)
        return;
    if (!name || !is_file_name(name)) {
        refuse(work, FAILURE_REQUEST, "filename", "\"filename\" cannot be the name of a file here",
               "use letters, digits, dots, - and _, without folders");
        return;
    }
    if (!take_content(work, arguments))
        return;
    work->path = xstrdup(name);
    work->answer = tell_uploaded;
    if (!work->session)
        work->session = new_session_id();
    if (json_is_true(json_object_get(arguments, "overwrite")))
        start(work, OP_FILE_WRITE, false, on_ended);
    else
        start(work, OP_FILE_STAT, false, on_looked);
}

/* ---- list ----------------------------------------------------------------------------------- */

static json_t *tell_listed(const struct file_call *work, const struct file_result *result)
{
    json_t *list = json_array(), *record;
    size_t index;
    json_array_foreach(result->entries, index, record)
    {
        const char *type = json_string_value(json_object_get(record, "type"));
        const char *name = json_string_value(json_object_get(record, "name"));
        if (!type || !name || strcmp(type, "file") != 0)
            continue;
        cleanup_free char *uri = resource_uri(work->session, name);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:s, s:n, s:s}", "path", name, "filename", name,
                            "size_bytes", json_integer_value(json_object_get(record, "size")),
                            "mime_type", content_type(name), "download_url", "uri", uri));
    }
    return answer_data(json_pack("{s:o}", "artifacts", list));
}

void tool_list_artifacts(struct mcp_call *call, const json_t *arguments)
{
    struct file_call *work = begin(call, arguments, true);
    if (!work)
        return;
    work->path = xstrdup("");
    work->answer = tell_listed;
    start(work, OP_FILE_LIST, true, on_ended);
}

/* ---- read ----------------------------------------------------------------------------------- */

static bool is_text(const uint8_t *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t step = utf8_sequence(bytes + at, length - at);
        if (step == 0 || bytes[at] == 0)
            return false;
        at += step;
    }
    return true;
}

static json_t *tell_text(const struct file_call *work, const struct file_result *result)
{
    cleanup_buf struct buf text = {0};
    size_t start = work->offset < result->length ? (size_t)work->offset : result->length;
    size_t length = result->length - start;
    bool is_cut = length > TEXT_MAX;
    if (is_cut)
        length = TEXT_MAX - utf8_unfinished((const uint8_t *)result->content + start, TEXT_MAX);
    utf8_append_valid(&text, (const uint8_t *)result->content + start, length);
    if (is_cut)
        buf_printf(&text, "\n[%zu of %zu bytes are shown; go on with \"offset\": %zu]", length,
                   result->length, start + length);
    return answer_text(buf_text(&text));
}

static json_t *tell_binary(const struct file_call *work, const struct file_result *result,
                           const char *type)
{
    cleanup_free char *uri = resource_uri(work->session, work->path);
    cleanup_free char *about =
        xasprintf("%s: %s, %zu bytes, %s", work->path, type, result->length, uri);
    json_t *answer = answer_text(about);
    json_t *content = json_object_get(answer, "content");
    if (answer_is_picture(type) &&
        answer_add_picture(answer, type, result->content, result->length))
        return answer;
    if (result->length > BINARY_MAX) {
        json_decref(answer);
        return answer_error(about, "it is too large for an answer: make it smaller with code, such "
                                   "as a picture of a lower resolution, or read parts of it");
    }
    cleanup_free char *data = base64_make(result->content, result->length);
    json_array_append_new(content,
                          json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource",
                                    "uri", uri, "mimeType", type, "blob", data));
    return answer;
}

static json_t *tell_read(const struct file_call *work, const struct file_result *result)
{
    const char *type = content_type_of(work->path, result->content, result->length);
    if (!answer_is_picture(type) && is_text(result->content, result->length))
        return tell_text(work, result);
    return tell_binary(work, result, type);
}

/* The working folder has three names. */
static const char *below_working_folder(const char *path)
{
    static const char *const names[] = {"/workspace/", "/mnt/data/", "/home/user/"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(path, names[i], strlen(names[i])) == 0)
            return path + strlen(names[i]);
    }
    return path;
}

void tool_read_artifact(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct file_call *work = begin(call, arguments, true);
    const char *path;
    if (!work)
        return;
    if (tools_need_text(arguments, "path", &path, &failure) < 0 ||
        tools_number(arguments, "offset", UINT32_MAX, &work->offset, &failure) < 0) {
        end(work, answer_failure(&failure));
        return;
    }
    work->path = xstrdup(below_working_folder(path));
    work->answer = tell_read;
    start(work, OP_FILE_READ, true, on_ended);
}
