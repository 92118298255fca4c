#include "server/tools/answer.h"

#include <string.h>

#include "base/buf.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/base64.h"
#include "server/content_type.h"
#include "server/session_output.h"

#define FIGURE_FOLDER "pictures"
#define LARGE_FIGURES_MAX 8
/* Of files, in a text. */
#define FILES_SHOWN 100

json_t *answer_text(const char *text)
{
    return json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text);
}

static json_t *content_of(const json_t *answer)
{
    return json_object_get(answer, "content");
}

void answer_note(json_t *answer, const char *line)
{
    json_t *block = json_array_get(content_of(answer), 0);
    const char *text = json_string_value(json_object_get(block, "text"));
    size_t length = strlen(text);
    const char *end = length == 0 || text[length - 1] == '\n' ? "" : "\n";
    cleanup_free char *longer = xasprintf("%s%s%s\n", text, end, line);
    json_object_set_new(block, "text", json_string(longer));
}

json_t *answer_error(const char *what, const char *remedy)
{
    cleanup_free char *first = xstrdup(what), *second = xstrdup(remedy);
    json_text_clean(first);
    json_text_clean(second);
    cleanup_free char *text = xasprintf("Error: %s%s%s", first, second[0] ? "\n" : "", second);
    json_t *answer = answer_text(text);
    json_object_set_new(answer, "isError", json_true());
    return answer;
}

json_t *answer_failure(const struct session_failure *failure)
{
    cleanup_buf struct buf remedy = {0};
    json_t *known = failure_json(failure);
    const char *message = json_string_value(json_object_get(known, "message"));
    const json_t *suggestions = json_object_get(known, "recovery_suggestions");
    for (size_t i = 0; i < json_array_size(suggestions); i++)
        buf_printf(&remedy, "%s%s", buf_length(&remedy) > 0 ? "; " : "",
                   json_string_value(json_array_get(suggestions, i)));
    json_t *answer = answer_error(message, buf_text(&remedy));
    json_object_set_new(answer, "structuredContent",
                        json_pack("{s:s, s:s, s:n, s:n}", "error", failure_short_code(failure),
                                  "message", message, "size_bytes", "download_url"));
    json_decref(known);
    return answer;
}

json_t *answer_data(json_t *object)
{
    cleanup_free char *text = json_dumps(object, JSON_INDENT(1));
    json_t *answer = answer_text(text);
    json_object_set_new(answer, "structuredContent", object);
    return answer;
}

/* ---- pictures ------------------------------------------------------------------------------- */

bool answer_is_picture(const char *type)
{
    return strcmp(type, "image/png") == 0 || strcmp(type, "image/jpeg") == 0;
}

size_t answer_room(const json_t *answer)
{
    size_t taken = 0, index;
    json_t *block;
    json_array_foreach(content_of(answer), index, block)
    {
        taken += json_string_length(json_object_get(block, "data"));
    }
    return taken < PICTURES_MAX ? PICTURES_MAX - taken : 0;
}

static size_t links_begin(const json_t *answer)
{
    size_t index;
    json_t *block;
    json_array_foreach(content_of(answer), index, block)
    {
        if (json_object_get(block, "uri"))
            return index;
    }
    return json_array_size(content_of(answer));
}

bool answer_add_base64(json_t *answer, const char *type, const char *data, size_t length)
{
    if (length > PICTURE_MAX / 3 * 4 + 4 || length > answer_room(answer))
        return false;
    json_array_insert_new(
        content_of(answer), links_begin(answer),
        json_pack("{s:s, s:s%, s:s}", "type", "image", "data", data, length, "mimeType", type));
    return true;
}

bool answer_add_picture(json_t *answer, const char *type, const void *bytes, size_t length)
{
    if (length > PICTURE_MAX)
        return false;
    cleanup_free char *data = base64_make(bytes, length);
    return answer_add_base64(answer, type, data, strlen(data));
}

/* Figures come as base64 with line ends. */
static void append_plain(struct buf *plain, const char *data)
{
    for (const char *at = data; *at; at += strspn(at, "\r\n")) {
        size_t length = strcspn(at, "\r\n");
        buf_append(plain, at, length);
        at += length;
    }
}

/* The form of a result that can be shown; NULL: it has none. */
static const char *figure_of(const json_t *record, const char **type)
{
    static const char *const types[] = {"image/png", "image/jpeg"};
    const char *data = NULL;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !data; i++) {
        *type = types[i];
        data = json_string_value(json_object_get(json_object_get(record, "data"), types[i]));
    }
    return data;
}

/* A figure that does not fit becomes a file first. False: these are too many. */
static bool add_figure(json_t *answer, const struct run_told *told, const char *type,
                       const char *data)
{
    cleanup_buf struct buf plain = {0};
    size_t count = json_array_size(told->pictures);
    append_plain(&plain, data);
    if (answer_add_base64(answer, type, buf_text(&plain), buf_length(&plain)))
        return true;
    if (count >= LARGE_FIGURES_MAX)
        return false;
    cleanup_free char *path = xasprintf(FIGURE_FOLDER "/%s-%zu.%s", told->id, count + 1,
                                        strcmp(type, "image/png") == 0 ? "png" : "jpg");
    json_array_append_new(told->pictures, json_pack("{s:s, s:I, s:s%}", "path", path, "size",
                                                    (json_int_t)buf_length(&plain) / 4 * 3, "data",
                                                    buf_text(&plain), buf_length(&plain)));
    return true;
}

/* How many there are. */
static size_t add_figures(json_t *answer, struct buf *text, const struct run_told *told)
{
    size_t index, count = 0, left_out = 0;
    json_t *record;
    const char *type;
    json_array_foreach(told->results, index, record)
    {
        const char *data = figure_of(record, &type);
        count += data != NULL;
        left_out += data && !add_figure(answer, told, type, data);
    }
    if (left_out > 0)
        buf_printf(text, "[%zu more figures are not shown: show fewer at once]\n", left_out);
    return count;
}

/* ---- files ---------------------------------------------------------------------------------- */

json_t *answer_artifact(const struct file_place *place, const char *path, json_int_t size)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *uri = resource_uri(place->session, path);
    cleanup_free char *url = place->base ? artifact_url_at(place->server, place->base,
                                                           place->namespace, place->session, path)
                                         : NULL;
    return json_pack("{s:s, s:s, s:I, s:s, s:s?, s:s}", "path", path, "filename",
                     slash ? slash + 1 : path, "size_bytes", size, "mime_type", content_type(path),
                     "download_url", url, "uri", uri);
}

/* Tells of it in a line, and returns the link; NULL: it has no address. */
static json_t *tell_file(struct buf *text, const struct file_place *place, const char *prefix,
                         const char *path, json_int_t size)
{
    const char *type = content_type(path);
    buf_printf(text, "%s%s (%s, %lld bytes)", prefix, path, type, (long long)size);
    if (!place->session)
        return NULL;
    json_t *artifact = answer_artifact(place, path, size);
    const char *url = json_string_value(json_object_get(artifact, "download_url"));
    const char *uri = json_string_value(json_object_get(artifact, "uri"));
    buf_printf(text, ": %s%s%s", uri, url ? " download: " : "", url ? url : "");
    json_t *link =
        json_pack("{s:s, s:s, s:O, s:s, s:I}", "type", "resource_link", "uri", uri, "name",
                  json_object_get(artifact, "filename"), "mimeType", type, "size", size);
    json_decref(artifact);
    return link;
}

void answer_add_link(json_t *answer, const struct file_place *place, const char *prefix,
                     const char *path, json_int_t size)
{
    cleanup_buf struct buf line = {0};
    json_t *link = tell_file(&line, place, prefix, path, size);
    answer_note(answer, buf_text(&line));
    if (link)
        json_array_append_new(content_of(answer), link);
}

/* ---- what ran ------------------------------------------------------------------------------- */

static void end_line(struct buf *text)
{
    if (buf_length(text) > 0 && buf_data(text)[buf_length(text) - 1] != '\n')
        buf_append_text(text, "\n");
}

/* False: it was too long. */
static bool add_stream(struct buf *text, const char *stream)
{
    size_t length = strlen(stream);
    bool fits = length <= OUTPUT_SHOWN;
    if (!fits)
        length = OUTPUT_SHOWN - utf8_unfinished((const uint8_t *)stream, OUTPUT_SHOWN);
    buf_append(text, stream, length);
    end_line(text);
    return fits;
}

static void add_output(struct buf *text, const struct run_told *told)
{
    bool whole = add_stream(text, told->out) && !told->out_cut;
    if (!whole && told->rest)
        buf_printf(text, "[stdout goes on%s: read %s with %s]\n",
                   told->out_cut ? " and was cut" : "", told->rest, told->reader);
    else if (!whole)
        buf_append_text(text, "[stdout was cut here: print less, or write it to a file]\n");
    if (told->err[0])
        buf_append_text(text, "[stderr]\n");
    if (!add_stream(text, told->err) || told->err_cut)
        buf_append_text(text, "[stderr was cut here: print less, or write it to a file]\n");
    buf_printf(text, "%s\n", told->footer);
}

/* Where figures are shown, a picture is most likely one of them, and only linked to. */
static void add_file(json_t *answer, struct buf *text, const struct run_told *told, json_t *record,
                     bool shows)
{
    const char *path = artifact_path(record);
    json_int_t size = json_integer_value(json_object_get(record, "size"));
    bool is_shown = shows && answer_is_picture(content_type(path));
    json_t *link = tell_file(text, &told->place, "- ", path, size);
    buf_append_text(text, "\n");
    if (is_shown)
        json_array_append(told->pictures, record);
    if (!is_shown || size > PICTURE_MAX)
        json_array_append(content_of(answer), link);
    json_decref(link);
}

static void add_files(json_t *answer, struct buf *text, const struct run_told *told, bool shows)
{
    size_t index, count = 0;
    json_t *record;
    json_array_foreach(told->files, index, record)
    {
        if (!artifact_path(record))
            continue;
        if (count == 0)
            buf_printf(text, "New or changed files, for %s:\n", told->reader);
        if (count < FILES_SHOWN)
            add_file(answer, text, told, record, shows);
        count++;
    }
    if (count > FILES_SHOWN)
        buf_printf(text, "[and %zu more: list the folder to see them]\n", count - FILES_SHOWN);
}

json_t *answer_run(const struct run_told *told)
{
    cleanup_buf struct buf text = {0};
    json_t *answer = answer_text("");
    add_output(&text, told);
    size_t figures = add_figures(answer, &text, told);
    add_files(answer, &text, told, figures == 0);
    json_object_set_new(json_array_get(content_of(answer), 0), "text",
                        json_string(buf_text(&text)));
    return answer;
}
