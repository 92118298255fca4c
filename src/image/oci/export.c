#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "image/oci/archive.h"
#include "image/oci/blobs.h"
#include "image/oci/manifest.h"
#include "image/store.h"

#define CHUNK ((size_t)1 << 20)

static int failed(struct archive *archive, struct error *err)
{
    int reason = archive_errno(archive);
    return error_errno(err, reason > 0 ? reason : EIO, "cannot write the archive");
}

static int begin_file(struct archive *archive, const char *path, int64_t size, struct error *err)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, size);
    int result = archive_write_header(archive, entry);
    archive_entry_free(entry);
    return result == ARCHIVE_OK ? 0 : failed(archive, err);
}

static int put_json(struct archive *archive, const char *path, json_t *owned, struct error *err)
{
    cleanup_free char *text = json_dumps(owned, JSON_COMPACT);
    json_decref(owned);
    size_t length = strlen(text);
    int result = begin_file(archive, path, (int64_t)length, err);
    if (result == 0 && archive_write_data(archive, text, length) != (la_ssize_t)length)
        result = failed(archive, err);
    return result;
}

static char *path_in_layout(const char *digest)
{
    return xasprintf("blobs/sha256/%s", digest + strlen("sha256:"));
}

static int put_blob(struct archive *archive, const char *digest, struct error *err)
{
    struct stat status;
    cleanup_free char *from = blobs_path(digest), *to = path_in_layout(digest);
    cleanup_free uint8_t *chunk = xmalloc(CHUNK);
    cleanup_fd int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, errno, "cannot open %s", from);
    int result = begin_file(archive, to, status.st_size, err);
    while (result == 0) {
        ssize_t got = read(fd, chunk, CHUNK);
        if (got == 0)
            break;
        if (got < 0)
            result = error_errno(err, errno, "cannot read %s", from);
        else if (archive_write_data(archive, chunk, (size_t)got) != got)
            result = failed(archive, err);
        else if (cancel_requested())
            result = cancel_error(err);
        progress_tick();
    }
    return result;
}

static json_t *describe_manifest(const struct image *image, const char *type)
{
    struct stat status;
    cleanup_free char *path = blobs_path(image->blobs[0]);
    int64_t size = stat(path, &status) == 0 ? status.st_size : 0;
    return json_pack("{s:i, s:[{s:s, s:s, s:I, s:{s:s, s:s}}]}", "schemaVersion", 2, "manifests",
                     "mediaType", type, "digest", image->blobs[0], "size", (json_int_t)size,
                     "annotations", "org.opencontainers.image.ref.name", image->reference,
                     "io.containerd.image.name", image->reference);
}

/* What docker reads. One that was pulled by its digest has no tag that docker would know. */
static json_t *describe_for_docker(const struct image *image)
{
    json_t *layers = json_array(), *tags = json_array();
    for (size_t i = 2; image->blobs[i]; i++) {
        cleanup_free char *path = path_in_layout(image->blobs[i]);
        json_array_append_new(layers, json_string(path));
    }
    if (!strchr(image->reference, '@'))
        json_array_append_new(tags, json_string(image->reference));
    cleanup_free char *config = path_in_layout(image->blobs[1]);
    return json_pack("[{s:s, s:o, s:o}]", "Config", config, "RepoTags", tags, "Layers", layers);
}

/* As the manifest says itself, or OCI's, which may leave it out. */
static int read_type(const struct image *image, char **type, struct error *err)
{
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = blobs_path(image->blobs[0]);
    int result = file_read(path, MANIFEST_MAX, &text, err);
    if (result < 0)
        return result;
    json_t *root = json_loadb((const char *)buf_data(&text), buf_length(&text), 0, NULL);
    const char *own = json_string_value(json_object_get(root, "mediaType"));
    *type = xstrdup(own ? own : "application/vnd.oci.image.manifest.v1+json");
    json_decref(root);
    return 0;
}

static int write_all(struct archive *archive, const struct image *image, struct error *err)
{
    cleanup_free char *type = NULL;
    int result = read_type(image, &type, err);
    if (result == 0)
        result =
            put_json(archive, "oci-layout", json_pack("{s:s}", "imageLayoutVersion", "1.0.0"), err);
    if (result == 0)
        result = put_json(archive, "index.json", describe_manifest(image, type), err);
    if (result == 0)
        result = put_json(archive, "manifest.json", describe_for_docker(image), err);
    for (size_t i = 0; result == 0 && image->blobs[i]; i++) {
        /* A layer may be there twice. */
        size_t first = 0;
        while (strcmp(image->blobs[first], image->blobs[i]) != 0)
            first++;
        if (first == i)
            result = put_blob(archive, image->blobs[i], err);
    }
    return result;
}

int archive_export(const char *reference, int fd, struct error *err)
{
    struct image image;
    cleanup_fd int held = blobs_hold(err);
    if (held < 0)
        return held;
    int result = store_load(reference, &image, NULL, err);
    if (result < 0)
        return result;
    if (strv_length(image.blobs) < 2) {
        error_set(err, ERROR_INVALID, "%s was built here and has no layers to export", reference);
        error_hint(err, "msb prepare builds it anywhere; only images from registries are exported");
        image_release(&image);
        return -1;
    }
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    archive_write_add_filter_none(archive);
    archive_write_set_bytes_in_last_block(archive, 1);
    progress_begin("Exporting %s", reference);
    result = archive_write_open_fd(archive, fd) == ARCHIVE_OK ? write_all(archive, &image, err)
                                                              : failed(archive, err);
    if (result == 0 && archive_write_close(archive) != ARCHIVE_OK)
        result = failed(archive, err);
    archive_write_free(archive);
    progress_end(result == 0);
    image_release(&image);
    return result;
}
