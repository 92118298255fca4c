#include "cli/results.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static int put(int fd, const char *text)
{
    size_t length = strlen(text);
    bool ended = length && text[length - 1] == '\n';
    if (file_write_all(fd, text, length) < 0)
        return -1;
    return ended ? 0 : file_write_all(fd, "\n", 1);
}

/* Base64 has four characters for three bytes; svg is text. */
static size_t image_size(const char *mime, const json_t *form)
{
    size_t length = json_string_length(form);
    return strcmp(mime, "image/svg+xml") == 0 ? length : length / 4 * 3;
}

/* A terminal cannot show images: a line says that there is one. */
static int show_images(json_t *data)
{
    const char *mime;
    json_t *form;
    json_object_foreach(data, mime, form)
    {
        if (strncmp(mime, "image/", 6) != 0)
            continue;
        cleanup_free char *line =
            xasprintf("[%s, %zu KB]", mime, (image_size(mime, form) + 1023) / 1024);
        if (put(STDOUT_FILENO, line) < 0)
            return -1;
    }
    return 0;
}

static int show_result(const json_t *record, const char *text)
{
    if (put(STDOUT_FILENO, text) < 0)
        return -1;
    return show_images(json_object_get(record, "data"));
}

static int show(const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *traceback = json_string_value(json_object_get(record, "traceback"));
    if (type && strcmp(type, "result") == 0 && text)
        return show_result(record, text);
    if (type && strcmp(type, "error") == 0 && traceback && traceback[0])
        return put(STDERR_FILENO, traceback);
    return 0;
}

int results_take(struct records *records, const uint8_t *bytes, size_t length)
{
    records_feed(records, bytes, length);
    for (json_t *record; (record = records_next(records));) {
        int failed = show(record);
        json_decref(record);
        if (failed)
            return -1;
    }
    return 0;
}
