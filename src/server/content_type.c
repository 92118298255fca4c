#include "server/content_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

static const struct {
    const char *ending, *type;
} types[] = {
    {".avif", "image/avif"},
    {".css", "text/css; charset=utf-8"},
    {".csv", "text/csv; charset=utf-8"},
    {".gif", "image/gif"},
    {".gz", "application/gzip"},
    {".htm", "text/html; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".ipynb", "application/x-ipynb+json"},
    {".jpeg", "image/jpeg"},
    {".jpg", "image/jpeg"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".md", "text/markdown; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".mp3", "audio/mpeg"},
    {".mp4", "video/mp4"},
    {".parquet", "application/vnd.apache.parquet"},
    {".pdf", "application/pdf"},
    {".png", "image/png"},
    {".py", "text/x-python; charset=utf-8"},
    {".sh", "application/x-sh"},
    {".svg", "image/svg+xml"},
    {".tar", "application/x-tar"},
    {".txt", "text/plain; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".wav", "audio/wav"},
    {".webp", "image/webp"},
    {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".xml", "application/xml"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".zip", "application/zip"},
};

#define UNKNOWN "application/octet-stream"

static const struct {
    const char *bytes;
    size_t length;
    const char *type;
} beginnings[] = {
    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
    {"\xff\xd8\xff", 3, "image/jpeg"},
    {"GIF8", 4, "image/gif"},
    {"%PDF-", 5, "application/pdf"},
    {"PK\x03\x04", 4, "application/zip"},
    {"\x1f\x8b", 2, "application/gzip"},
    {"PAR1", 4, "application/vnd.apache.parquet"},
};

const char *content_type(const char *name)
{
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(types[i].ending, ending) == 0)
            return types[i].type;
    }
    return UNKNOWN;
}

static bool is_text(const uint8_t *bytes, size_t length)
{
    length -= utf8_unfinished(bytes, length);
    for (size_t at = 0; at < length;) {
        size_t step = utf8_sequence(bytes + at, length - at);
        bool control = bytes[at] < 0x20 && !strchr("\t\n\r\f\x1b", bytes[at]);
        if (step == 0 || control || bytes[at] == 0)
            return false;
        at += step;
    }
    return true;
}

const char *content_type_of(const char *name, const uint8_t *bytes, size_t length)
{
    const char *type = content_type(name);
    if (strcmp(type, UNKNOWN) != 0 || length == 0)
        return type;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (length >= beginnings[i].length &&
            memcmp(bytes, beginnings[i].bytes, beginnings[i].length) == 0)
            return beginnings[i].type;
    }
    return is_text(bytes, length) ? "text/plain; charset=utf-8" : UNKNOWN;
}
