/* sandbox_list_artifacts and sandbox_read_artifact. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "server/base64.h"
#include "server/content_type.h"
#include "server/tools/file_call.h"

/* Of a text, at once. */
#define TEXT_MAX (64u << 10)
/* In base64, within an answer. */
#define BINARY_MAX (2u << 20)

/* The working folder has three names. */
static const char *below_working_folder(const char *path)
{
    static const char *const names[] = {"/workspace", "/mnt/data", "/home/user"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(path, names[i], length) == 0 && (path[length] == '/' || !path[length]))
            return path + length + strspn(path + length, "/");
    }
    return path;
}

/* ---- list ----------------------------------------------------------------------------------- */

static void on_listed(void *context, const struct file_result *result,
                      const struct session_failure *failure)
{
    struct file_call *work = context;
    if (failure) {
        file_call_end(work, answer_failure(failure));
        return;
    }
    struct file_place place = file_call_place(work);
    json_t *list = json_array(), *record;
    size_t index, next = 0;
    json_array_foreach(result->entries, index, record)
    {
        const char *path = artifact_path(record);
        if (!path || index < work->offset)
            continue;
        if (json_array_size(list) == ARTIFACT_PAGE) {
            next = index;
            break;
        }
        json_array_append_new(
            list,
            answer_artifact(&place, path, json_integer_value(json_object_get(record, "size"))));
    }
    json_t *answer = json_pack("{s:o}", "artifacts", list);
    cleanup_free char *cursor = xasprintf("%zu", next);
    if (next > 0)
        json_object_set_new(answer, "next_cursor", json_string(cursor));
    if (result->is_cut)
        json_object_set_new(answer, "note",
                            json_string("there are too many files to tell all: list a folder, "
                                        "with \"path\""));
    file_call_end(work, answer_data(answer));
}

void tool_list_artifacts(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct file_call *work = file_call_begin(call, arguments, true);
    const char *cursor, *folder;
    if (!work)
        return;
    if (tools_text(arguments, "cursor", &cursor, &failure) < 0 ||
        tools_text(arguments, "path", &folder, &failure) < 0) {
        file_call_end(work, answer_failure(&failure));
        return;
    }
    work->offset = cursor ? strtoul(cursor, NULL, 10) : 0;
    work->path = xstrdup(folder ? below_working_folder(folder) : "");
    file_call_start(work, OP_FILE_LIST, true, on_listed);
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

/* All of it, or as much as an answer holds. */
static json_t *tell_bytes(const struct file_call *work, const struct file_result *result,
                          const char *about, const char *type)
{
    size_t start = work->offset < result->length ? (size_t)work->offset : result->length;
    size_t length = result->length - start;
    if (length > BINARY_MAX && !work->is_raw)
        return answer_error(about, "it is too large for an answer: read it with code, or in parts "
                                   "with \"raw\" and \"offset\"");
    if (length > BINARY_MAX)
        length = BINARY_MAX;
    cleanup_free char *uri = resource_uri(work->session, work->path);
    cleanup_free char *data = base64_make((const uint8_t *)result->content + start, length);
    json_t *answer = answer_text(about);
    json_array_append_new(json_object_get(answer, "content"),
                          json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource",
                                    "uri", uri, "mimeType", type, "blob", data));
    cleanup_free char *line = xasprintf("[bytes %zu to %zu are here]", start, start + length);
    if (length < result->length)
        answer_note(answer, line);
    return answer;
}

static void on_shown(struct pictures *pictures)
{
    file_call_end(pictures->context, json_incref(pictures->answer));
}

static void show_smaller(struct file_call *work, json_int_t size)
{
    struct server *server = tools_server(work->call);
    json_t *known = sessions_get(server->sessions, work->namespace, work->session);
    const char *sandbox = json_string_value(json_object_get(known, "sandbox_name"));
    work->pictures =
        (struct pictures){.server = server,
                          .scope = work->call->scope,
                          .namespace = work->namespace,
                          .sandbox = xstrdup(sandbox ? sandbox : ""),
                          .place = file_call_place(work),
                          .answer = answer_text(""),
                          .wanted = json_pack("[{s:s, s:I}]", "path", work->path, "size", size),
                          .shown = on_shown,
                          .context = work};
    json_decref(known);
    work->is_showing = true;
    answer_add_link(work->pictures.answer, &work->pictures.place, "", work->path, size);
    pictures_show(&work->pictures);
}

/* Too large to be read: its size is wanted, and where it can be had. */
static void on_measured(void *context, const struct file_result *result,
                        const struct session_failure *failure)
{
    struct file_call *work = context;
    struct error err;
    struct session_failure too_large;
    if (failure) {
        file_call_end(work, answer_failure(failure));
        return;
    }
    json_int_t size =
        json_integer_value(json_object_get(json_array_get(result->entries, 0), "size"));
    if (answer_is_picture(content_type(work->path))) {
        show_smaller(work, size);
        return;
    }
    error_set(&err, ERROR_LIMIT, "%.400s has %lld bytes, at most %u are read at once", work->path,
              (long long)size, ARTIFACT_MAX);
    error_hint(&err, "read parts of it with code");
    failure_wrap(&too_large, FAILURE_FILE_TOO_LARGE, NULL, work->session, &err);
    json_t *answer = answer_failure(&too_large);
    struct file_place place = file_call_place(work);
    json_t *artifact = answer_artifact(&place, work->path, size);
    json_t *told = json_object_get(answer, "structuredContent");
    json_object_set(told, "size_bytes", json_object_get(artifact, "size_bytes"));
    json_object_set(told, "download_url", json_object_get(artifact, "download_url"));
    json_decref(artifact);
    file_call_end(work, answer);
}

static void tell(struct file_call *work, const struct file_result *result)
{
    const char *type = content_type_of(work->path, result->content, result->length);
    cleanup_free char *uri = resource_uri(work->session, work->path);
    cleanup_free char *about =
        xasprintf("%s: %s, %zu bytes, %s", work->path, type, result->length, uri);
    if (work->is_raw || !answer_is_picture(type)) {
        bool shows_text = !work->is_raw && is_text(result->content, result->length);
        file_call_end(work,
                      shows_text ? tell_text(work, result) : tell_bytes(work, result, about, type));
        return;
    }
    if (result->length > PICTURE_MAX) {
        show_smaller(work, (json_int_t)result->length);
        return;
    }
    json_t *answer = answer_text(about);
    answer_add_picture(answer, type, result->content, result->length);
    file_call_end(work, answer);
}

static void on_read(void *context, const struct file_result *result,
                    const struct session_failure *failure)
{
    struct file_call *work = context;
    if (result)
        tell(work, result);
    else if (failure->kind == FAILURE_FILE_TOO_LARGE)
        file_call_start(work, OP_FILE_STAT, true, on_measured);
    else
        file_call_end(work, answer_failure(failure));
}

void tool_read_artifact(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct file_call *work = file_call_begin(call, arguments, true);
    const char *path;
    if (!work)
        return;
    if (tools_need_text(arguments, "path", &path, &failure) < 0 ||
        tools_number(arguments, "offset", UINT32_MAX, &work->offset, &failure) < 0) {
        file_call_end(work, answer_failure(&failure));
        return;
    }
    work->path = xstrdup(below_working_folder(path));
    work->is_raw = json_is_true(json_object_get(arguments, "raw"));
    file_call_start(work, OP_FILE_READ, true, on_read);
}
