#include "server/session_output.h"

#include <string.h>

#include "base/mem.h"
#include "server/content_type.h"

/* ---- pictures ------------------------------------------------------------------------------ */

static const struct {
    const char *type, *ending;
    bool is_text;
} pictures[] = {{"image/png", "png", false},
                {"image/jpeg", "jpg", false},
                {"image/gif", "gif", false},
                {"image/webp", "webp", false},
                {"image/svg+xml", "svg", true}};

static void append_escaped(struct buf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    for (const char *at = text; *at; at++) {
        if (strchr(plain, *at))
            buf_append(out, at, 1);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*at);
    }
}

/* Binary forms come as base64, with line ends that an address cannot have. */
static void append_data(struct buf *out, const char *type, const char *data, bool is_text)
{
    buf_printf(out, "data:%s%s", type, is_text ? "," : ";base64,");
    if (is_text) {
        append_escaped(out, data);
        return;
    }
    for (const char *at = data; *at; at += strcspn(at, "\r\n") + 1) {
        size_t length = strcspn(at, "\r\n");
        buf_append(out, at, length);
        if (!at[length])
            break;
    }
}

static void add_picture(json_t *artifacts, size_t which, const char *data)
{
    cleanup_buf struct buf url = {0};
    size_t number = json_array_size(artifacts) + 1;
    size_t size = pictures[which].is_text ? strlen(data) : strlen(data) / 4 * 3;
    append_data(&url, pictures[which].type, data, pictures[which].is_text);
    cleanup_free char *name = xasprintf("picture-%zu.%s", number, pictures[which].ending);
    json_array_append_new(
        artifacts, json_pack("{s:s, s:s, s:s, s:n, s:I, s:s, s:n}", "type", "image", "mime_type",
                             pictures[which].type, "filename", name, "path", "size_bytes",
                             (json_int_t)size, "url", buf_text(&url), "download_url"));
}

/* Of each result its first form that is a picture. */
static void add_pictures(json_t *artifacts, const json_t *results)
{
    size_t index;
    json_t *record;
    json_array_foreach(results, index, record)
    {
        const json_t *data = json_object_get(record, "data");
        for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
            const char *form = json_string_value(json_object_get(data, pictures[i].type));
            if (!form)
                continue;
            add_picture(artifacts, i, form);
            break;
        }
    }
}

/* ---- files --------------------------------------------------------------------------------- */

json_t *artifact_json(const struct http_request *request, const char *namespace, const char *id,
                      const json_t *record)
{
    const char *path = json_string_value(json_object_get(record, "path"));
    const char *name = json_string_value(json_object_get(record, "name"));
    cleanup_free char *url = artifact_url(request, namespace, id, path);
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "path", path, "filename", name, "size_bytes",
                     json_integer_value(json_object_get(record, "size")), "mime_type",
                     content_type(name), "download_url", url);
}

static void add_files(json_t *artifacts, const struct http_request *request, const char *namespace,
                      const struct run_result *result)
{
    size_t index;
    json_t *record;
    json_array_foreach(result->files, index, record)
    {
        json_t *artifact = artifact_json(request, namespace, result->session_id, record);
        json_object_set_new(artifact, "type", json_string("file"));
        json_object_set(artifact, "url", json_object_get(artifact, "download_url"));
        json_array_append_new(artifacts, artifact);
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

json_t *output_of_run(const struct http_request *request, const char *namespace,
                      const struct run_result *result)
{
    json_t *artifacts = json_array();
    bool has_error = !result->success || result->err[0];
    add_pictures(artifacts, result->results);
    add_files(artifacts, request, namespace, result);
    json_t *json =
        json_pack("{s:b, s:s, s:s?, s:I, s:o}", "success", result->success, "output", result->out,
                  "error", has_error ? result->err : NULL, "execution_time_ms",
                  (json_int_t)(result->duration_us + 500) / 1000, "artifacts", artifacts);
    if (result->out_truncated || result->err_truncated)
        json_object_set_new(json, "truncated", json_true());
    return json;
}

static bool is_there(const json_t *package)
{
    const char *state = json_string_value(json_object_get(package, "state"));
    return strcmp(state, "installed") == 0 || strcmp(state, "present") == 0;
}

json_t *output_of_install(json_t *packages, uint64_t duration_ms)
{
    cleanup_buf struct buf output = {0}, error = {0};
    size_t index;
    json_t *package;
    json_array_foreach(packages, index, package)
    {
        const char *asked = json_string_value(json_object_get(package, "package"));
        const char *version = json_string_value(json_object_get(package, "version"));
        const char *message = json_string_value(json_object_get(package, "message"));
        const char *state = json_string_value(json_object_get(package, "state"));
        if (is_there(package))
            buf_printf(&output, "%s%s%s: %s\n", asked, version ? " " : "", version ? version : "",
                       state);
        else
            buf_printf(&error, "%s: %s%s%s\n", asked, state, message ? ": " : "",
                       message ? message : "");
    }
    bool failed = buf_length(&error) > 0;
    return json_pack("{s:b, s:s, s:s?, s:I, s:[], s:o}", "success", !failed, "output",
                     buf_text(&output), "error", failed ? buf_text(&error) : NULL,
                     "execution_time_ms", (json_int_t)duration_ms, "artifacts", "packages",
                     packages);
}
