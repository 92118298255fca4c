#include "server/lines.h"

#include <string.h>

static const char *const streams[] = {"stdout", "stderr"};

static void add_line(json_t *lines, const char *stream, const char *text, size_t length)
{
    json_array_append_new(lines, json_pack("{s:s, s:s%}", "stream", stream, "text", text, length));
}

static void add_text(json_t *lines, struct buf *unfinished, const char *stream, const char *text,
                     size_t length)
{
    buf_append(unfinished, text, length);
    const char *end;
    while (buf_length(unfinished) > 0 &&
           (end = memchr(buf_data(unfinished), '\n', buf_length(unfinished)))) {
        size_t size = (size_t)(end - (const char *)buf_data(unfinished));
        add_line(lines, stream, (const char *)buf_data(unfinished), size);
        buf_consume(unfinished, size + 1);
    }
}

static void finish(json_t *lines, struct buf *unfinished, const char *stream)
{
    if (buf_length(unfinished) > 0)
        add_line(lines, stream, (const char *)buf_data(unfinished), buf_length(unfinished));
    buf_free(unfinished);
}

json_t *lines_of_pieces(const json_t *pieces)
{
    json_t *lines = json_array();
    struct buf unfinished[2] = {0};
    size_t index;
    const json_t *piece;
    json_array_foreach(pieces, index, piece)
    {
        int which = strcmp(json_string_value(json_object_get(piece, "stream")), "stderr") == 0;
        const json_t *text = json_object_get(piece, "text");
        add_text(lines, &unfinished[which], streams[which], json_string_value(text),
                 json_string_length(text));
    }
    finish(lines, &unfinished[0], streams[0]);
    finish(lines, &unfinished[1], streams[1]);
    return lines;
}

static void add_whole(json_t *lines, const char *stream, const json_t *text)
{
    struct buf unfinished = {0};
    if (json_string_length(text) > 0)
        add_text(lines, &unfinished, stream, json_string_value(text), json_string_length(text));
    finish(lines, &unfinished, stream);
}

json_t *lines_of_run(const struct collection *collection, const char *problem)
{
    json_t *lines = lines_of_pieces(collection->pieces);
    size_t index;
    const json_t *record;
    json_array_foreach(collection->records, index, record)
    {
        add_whole(lines, "stdout", json_object_get(record, "text"));
    }
    add_whole(lines, "stderr", json_object_get(collection->error, "traceback"));
    if (problem)
        add_line(lines, "stderr", problem, strlen(problem));
    return lines;
}
