#include "server/content_type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

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

const char *content_type(const char *name)
{
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < sizeof types / sizeof types[0]; i++) {
        if (strcasecmp(types[i].ending, ending) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}
