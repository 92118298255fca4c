#include "server/tools/answer.h"

#include <string.h>

#include "base/buf.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/base64.h"
#include "server/content_type.h"

json_t *answer_text(const char *text)
{
    return json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text);
}

void answer_add_text(json_t *answer, const char *text)
{
    json_array_append_new(json_object_get(answer, "content"),
                          json_pack("{s:s, s:s}", "type", "text", "text", text));
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

static json_t *content_of(const json_t *answer)
{
    return json_object_get(answer, "content");
}

static size_t room_of(const json_t *answer)
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

static bool add_base64(json_t *answer, const char *type, const char *data, size_t length)
{
    if (length > PICTURE_MAX / 3 * 4 + 4 || length > room_of(answer))
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
    return add_base64(answer, type, data, strlen(data));
}

/* Figures come as base64 with line ends. */
static bool add_figure(json_t *answer, const char *type, const char *data)
{
    cleanup_buf struct buf plain = {0};
    for (const char *at = data; *at; at += strspn(at, "\r\n")) {
        size_t length = strcspn(at, "\r\n");
        buf_append(&plain, at, length);
        at += length;
    }
    return add_base64(answer, type, buf_text(&plain), buf_length(&plain));
}

/* How many could not be shown. */
static size_t add_figures(json_t *answer, const json_t *results)
{
    static const char *const types[] = {"image/png", "image/jpeg"};
    size_t index, left_out = 0;
    json_t *record;
    json_array_foreach(results, index, record)
    {
        const json_t *forms = json_object_get(record, "data");
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            const char *data = json_string_value(json_object_get(forms, types[i]));
            if (!data)
                continue;
            left_out += !add_figure(answer, types[i], data);
            break;
        }
    }
    return left_out;
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

static json_t *add_file(struct buf *text, const struct run_told *told, const json_t *record)
{
    const char *path = json_string_value(json_object_get(record, "path"));
    const char *name = json_string_value(json_object_get(record, "name"));
    json_int_t size = json_integer_value(json_object_get(record, "size"));
    cleanup_free char *uri = resource_uri(told->session, path);
    const char *type = content_type(path);
    buf_printf(text, "- %s (%s, %lld bytes): %s\n", path, type, (long long)size, uri);
    return json_pack("{s:s, s:s, s:s, s:s, s:I}", "type", "resource_link", "uri", uri, "name",
                     name ? name : path, "mimeType", type, "size", size);
}

static bool is_small_picture(const json_t *record)
{
    const char *path = json_string_value(json_object_get(record, "path"));
    return answer_is_picture(content_type(path)) &&
           json_integer_value(json_object_get(record, "size")) <= PICTURE_MAX;
}

/* Where figures are shown already, a picture is most likely one of them, and linked to. */
static void add_files(json_t *answer, struct buf *text, const struct run_told *told)
{
    size_t index;
    json_t *record;
    if (!told->session || json_array_size(told->files) == 0)
        return;
    json_t *links = json_array();
    bool shows = told->pictures && json_array_size(content_of(answer)) == 1;
    buf_printf(text, "New or changed files, for %s:\n", told->reader);
    json_array_foreach(told->files, index, record)
    {
        json_t *link = add_file(text, told, record);
        if (shows && is_small_picture(record))
            json_array_append(told->pictures, record);
        else
            json_array_append(links, link);
        json_decref(link);
    }
    json_array_extend(content_of(answer), links);
    json_decref(links);
}

json_t *answer_run(const struct run_told *told)
{
    cleanup_buf struct buf text = {0};
    json_t *answer = answer_text("");
    add_output(&text, told);
    size_t left_out = add_figures(answer, told->results);
    if (left_out > 0)
        buf_printf(&text,
                   "[%zu figure%s larger than 1 MB and not shown: draw with fewer points or a "
                   "lower dpi]\n",
                   left_out, left_out == 1 ? " is" : "s are");
    add_files(answer, &text, told);
    json_object_set_new(json_array_get(content_of(answer), 0), "text",
                        json_string(buf_text(&text)));
    return answer;
}
