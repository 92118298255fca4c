/* Conditional requests and ranges, RFC 9110 sections 13 and 14. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http.h"

/* Whether a list of tags has this one; "W/" in front of it does not matter to a cache. */
static bool lists_tag(const char *list, const char *tag)
{
    size_t length = strlen(tag);
    for (const char *at = list; *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (strncmp(at, "W/", 2) == 0)
            at += 2;
        if (strncmp(at, tag, length) == 0 && strchr(", \t", at[length]))
            return true;
    }
    return strcmp(list, "*") == 0;
}

/* Digits only; what is larger than any file is as large as can be. False when there are none. */
static bool take_number(const char **text, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return true;
}

/* "bytes=2-5", "bytes=2-" or "bytes=-5". False when it is something else, which is no error. */
static bool parse_range(const char *text, uint64_t size, struct http_part *part)
{
    uint64_t first = 0, last = UINT64_MAX;
    if (strncmp(text, "bytes=", 6) != 0)
        return false;
    text += 6;
    bool has_first = take_number(&text, &first);
    if (*text++ != '-')
        return false;
    bool has_last = take_number(&text, &last);
    if (*text || (!has_first && !has_last) || (has_first && has_last && last < first))
        return false;
    uint64_t end = has_first && last < size ? last + 1 : size;
    if (!has_first)
        first = last < size ? size - last : 0;
    part->from = first;
    part->length = first < end ? end - first : 0;
    return true;
}

static bool wants_range(const struct http_request *request, const char *tag)
{
    const char *only_if = http_header(request, "If-Range");
    return http_header(request, "Range") && !request->is_head &&
           (!only_if || strcmp(only_if, tag) == 0);
}

struct http_part http_choose_part(struct http_request *request, uint64_t size, const char *tag)
{
    struct http_part part = {.status = 200, .length = size};
    const char *known = http_header(request, "If-None-Match");
    http_add_header(request, "ETag", tag);
    http_add_header(request, "Accept-Ranges", "bytes");
    if (known && lists_tag(known, tag)) {
        part.status = 304;
    } else if (wants_range(request, tag) &&
               parse_range(http_header(request, "Range"), size, &part)) {
        char text[80];
        part.status = part.length > 0 ? 206 : 416;
        if (part.length > 0)
            snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)part.from,
                     (unsigned long long)(part.from + part.length - 1), (unsigned long long)size);
        else
            snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)size);
        http_add_header(request, "Content-Range", text);
    }
    return part;
}
