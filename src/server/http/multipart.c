#include "server/http/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX 8000
#define BOUNDARY_MAX 70

/* The value of NAME=value or NAME="value" in a header's parameters. False: there is none, or it is
 * too long. In quotes a backslash makes a quote or backslash plain. */
static bool find_value(const char *header, size_t length, const char *name, char *value,
                       size_t size)
{
    size_t wanted = strlen(name);
    for (size_t at = 0; at + wanted < length; at++) {
        if (header[at] != ';')
            continue;
        size_t from = at + 1;
        while (from < length && (header[from] == ' ' || header[from] == '\t'))
            from++;
        if (from + wanted + 1 > length || strncasecmp(header + from, name, wanted) != 0 ||
            header[from + wanted] != '=')
            continue;
        from += wanted + 1;
        bool quoted = from < length && header[from] == '"';
        size_t used = 0;
        for (from += quoted; from < length; from++) {
            char c = header[from];
            if (quoted ? c == '"' : c == ';' || c == ' ' || c == '\t')
                break;
            if (quoted && c == '\\' && from + 1 < length &&
                (header[from + 1] == '"' || header[from + 1] == '\\'))
                c = header[++from];
            if (used + 1 >= size || c == '\0')
                return false;
            value[used++] = c;
        }
        value[used] = '\0';
        return !quoted || from < length;
    }
    return false;
}

bool multipart_init(struct multipart *multipart, const char *content_type)
{
    static const char wanted[] = "multipart/form-data";
    char boundary[BOUNDARY_MAX + 1];
    *multipart = (struct multipart){0};
    if (!content_type || strncasecmp(content_type, wanted, sizeof wanted - 1) != 0 ||
        !find_value(content_type, strlen(content_type), "boundary", boundary, sizeof boundary) ||
        !boundary[0])
        return false;
    multipart->delimiter_length =
        (size_t)snprintf(multipart->delimiter, sizeof multipart->delimiter, "\r\n--%s", boundary);
    return true;
}

static int broken(struct error *err)
{
    error_set(err, ERROR_INVALID,
              "the body is no multipart/form-data with the boundary that its "
              "Content-Type names");
    return error_hint(err, "let the client's library make both");
}

/* No text may stand in front of the first delimiter. */
static int read_first(struct multipart *multipart, const uint8_t *bytes, size_t length,
                      size_t *used, struct error *err)
{
    size_t wanted = multipart->delimiter_length - 2;
    if (memcmp(bytes, multipart->delimiter + 2, length < wanted ? length : wanted) != 0)
        return broken(err);
    if (length < wanted)
        return MULTIPART_MORE;
    *used = wanted;
    multipart->place = AFTER_DELIMITER;
    return MULTIPART_AGAIN;
}

/* "--" ends all, a line's end begins a part. */
static int after_delimiter(struct multipart *multipart, const uint8_t *bytes, size_t length,
                           size_t *used, struct error *err)
{
    if (length < 2)
        return MULTIPART_MORE;
    *used = 2;
    multipart->place = IN_HEAD;
    if (memcmp(bytes, "\r\n", 2) == 0)
        return MULTIPART_AGAIN;
    multipart->place = AFTER_ALL;
    return memcmp(bytes, "--", 2) == 0 ? MULTIPART_END : broken(err);
}

static void take_line(struct multipart *multipart, const char *line, size_t length)
{
    static const char wanted[] = "content-disposition:";
    char filename[sizeof multipart->filename];
    if (length > sizeof wanted && strncasecmp(line, wanted, sizeof wanted - 1) == 0 &&
        find_value(line, length, "filename", filename, sizeof filename))
        memcpy(multipart->filename, filename, strlen(filename) + 1);
}

/* Lines, and an empty one. */
static int read_head(struct multipart *multipart, const uint8_t *bytes, size_t length, size_t *used,
                     struct error *err)
{
    const uint8_t *at = bytes, *end = bytes + length, *next;
    multipart->filename[0] = '\0';
    while ((next = memmem(at, (size_t)(end - at), "\r\n", 2)) && next != at) {
        take_line(multipart, (const char *)at, (size_t)(next - at));
        at = next + 2;
    }
    if (!next)
        return length > HEAD_MAX ? broken(err) : MULTIPART_MORE;
    *used = (size_t)(next + 2 - bytes);
    multipart->place = IN_DATA;
    return MULTIPART_PART;
}

/* What may be the beginning of a delimiter waits for the rest of it. */
static int read_data(struct multipart *multipart, const uint8_t *bytes, size_t length, size_t *used)
{
    size_t wanted = multipart->delimiter_length;
    const uint8_t *found = memmem(bytes, length, multipart->delimiter, wanted);
    if (found == bytes) {
        *used = wanted;
        multipart->place = AFTER_DELIMITER;
        return MULTIPART_PART_END;
    }
    if (!found && length < wanted)
        return MULTIPART_MORE;
    *used = found ? (size_t)(found - bytes) : length - wanted + 1;
    return MULTIPART_BYTES;
}

int multipart_next(struct multipart *multipart, const uint8_t *bytes, size_t length, size_t *used,
                   struct error *err)
{
    *used = 0;
    if (length == 0)
        return multipart->place == AFTER_ALL ? MULTIPART_END : MULTIPART_MORE;
    switch (multipart->place) {
    case BEFORE_ALL:
        return read_first(multipart, bytes, length, used, err);
    case AFTER_DELIMITER:
        return after_delimiter(multipart, bytes, length, used, err);
    case IN_HEAD:
        return read_head(multipart, bytes, length, used, err);
    case IN_DATA:
        return read_data(multipart, bytes, length, used);
    default:
        *used = length;
        return MULTIPART_END;
    }
}
