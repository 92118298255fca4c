/* What docker save writes. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/progress.h"
#include "image/oci/blobs.h"
#include "image/oci/import_internal.h"

/* They do not say how a layer is compressed; its first bytes do. */
static const char *layer_type(const char *digest)
{
    uint8_t first[4] = {0};
    cleanup_free char *path = blobs_path(digest);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, first, sizeof first) == sizeof first) {
        if (first[0] == 0x1f && first[1] == 0x8b)
            return "application/vnd.oci.image.layer.v1.tar+gzip";
        if (memcmp(first, "\x28\xb5\x2f\xfd", 4) == 0)
            return "application/vnd.oci.image.layer.v1.tar+zstd";
    }
    return "application/vnd.oci.image.layer.v1.tar";
}

/* A descriptor for a file of the archive; NULL when it cannot be had. */
static json_t *describe_file(const struct import *import, const char *path, bool is_layer,
                             struct error *err)
{
    uint64_t size;
    cleanup_free char *digest = NULL;
    if (!path) {
        error_set(err, ERROR_INVALID, "its manifest.json names no files");
        return NULL;
    }
    if (import_take_blob(import, path, &digest, &size, err) < 0)
        return NULL;
    return json_pack("{s:s, s:s, s:I}", "mediaType",
                     is_layer ? layer_type(digest) : "application/vnd.oci.image.config.v1+json",
                     "digest", digest, "size", (json_int_t)size);
}

static int describe_layers(const struct import *import, const json_t *list, json_t *layers,
                           struct error *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > LAYERS_MAX)
        return error_set(err, ERROR_INVALID, "its manifest.json has no layers, or too many");
    for (size_t i = 0; i < count; i++) {
        progress_detail("layer %zu of %zu", i + 1, count);
        json_t *layer =
            describe_file(import, json_string_value(json_array_get(list, i)), true, err);
        if (!layer)
            return -1;
        json_array_append_new(layers, layer);
    }
    return 0;
}

static const char *docker_name(const json_t *entry)
{
    return json_string_value(json_array_get(json_object_get(entry, "RepoTags"), 0));
}

/* The name of the entry if it has the tag, which is a whole name or what follows its colon. */
static const char *match_tag(const json_t *entry, const char *tag)
{
    const json_t *names = json_object_get(entry, "RepoTags");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const char *colon = name ? strrchr(name, ':') : NULL;
        if (name && (strcmp(name, tag) == 0 || (colon && strcmp(colon + 1, tag) == 0)))
            return name;
    }
    return NULL;
}

static int choose_docker(struct import *import, const json_t *list, const json_t **entry,
                         struct error *err)
{
    const char *name = NULL;
    *entry = NULL;
    if (!import->tag && json_array_size(list) > 1)
        return import_refuse_several(list, docker_name, err);
    for (size_t i = 0; !*entry && i < json_array_size(list); i++) {
        const json_t *candidate = json_array_get(list, i);
        name = import->tag ? match_tag(candidate, import->tag) : docker_name(candidate);
        if (name || !import->tag)
            *entry = candidate;
    }
    if (!*entry)
        return import_refuse_tag(import, err);
    if (!import->name && name)
        import->name = xstrdup(name);
    return 0;
}

int import_docker(struct import *import, struct error *err)
{
    const json_t *entry;
    json_auto_t *root = import_read_json(import, "manifest.json", err);
    if (!root || choose_docker(import, root, &entry, err) < 0)
        return -1;
    json_auto_t *layers = json_array();
    json_auto_t *config =
        describe_file(import, json_string_value(json_object_get(entry, "Config")), false, err);
    int result =
        config ? describe_layers(import, json_object_get(entry, "Layers"), layers, err) : -1;
    if (result < 0)
        return result;
    json_auto_t *manifest =
        json_pack("{s:i, s:s, s:O, s:O}", "schemaVersion", 2, "mediaType",
                  "application/vnd.oci.image.manifest.v1+json", "config", config, "layers", layers);
    cleanup_free char *text = json_dumps(manifest, JSON_COMPACT);
    buf_append_text(&import->manifest_text, text);
    return manifest_parse(text, strlen(text), &import->manifest, err);
}
