/* The files of an archive are gathered in a folder, blobs as links; tar packs it. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/progress.h"
#include "image/oci/archive.h"
#include "image/oci/blobs.h"
#include "image/oci/manifest.h"
#include "image/store.h"

static int put_json(const char *folder, const char *name, json_t *owned, struct error *err)
{
    cleanup_free char *text = json_dumps(owned, JSON_COMPACT);
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    json_decref(owned);
    return file_write_atomic(path, text, strlen(text), 0644, err);
}

static char *path_in_layout(const char *digest)
{
    return xasprintf("blobs/sha256/%s", digest + strlen("sha256:"));
}

static int put_blob(const char *folder, const char *digest, struct error *err)
{
    cleanup_free char *from = blobs_path(digest), *inner = path_in_layout(digest);
    cleanup_free char *to = xasprintf("%s/%s", folder, inner);
    /* A layer may be there twice. */
    if (link(from, to) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot link %s", from);
    return 0;
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

static int gather(const char *folder, const struct image *image, struct error *err)
{
    cleanup_free char *type = NULL, *blobs = xasprintf("%s/blobs", folder),
                      *inner = xasprintf("%s/sha256", blobs);
    int result = read_type(image, &type, err);
    if (result == 0)
        result =
            put_json(folder, "oci-layout", json_pack("{s:s}", "imageLayoutVersion", "1.0.0"), err);
    if (result == 0)
        result = put_json(folder, "index.json", describe_manifest(image, type), err);
    if (result == 0)
        result = put_json(folder, "manifest.json", describe_for_docker(image), err);
    if (result == 0)
        result = folder_make(blobs, 0755, err);
    if (result == 0)
        result = folder_make(inner, 0755, err);
    for (size_t i = 0; result == 0 && image->blobs[i]; i++)
        result = put_blob(folder, image->blobs[i], err);
    return result;
}

static int pack(const char *folder, int fd, struct error *err)
{
    char *argv[] = {"tar",
                    "--create",
                    "--file=-",
                    "--format=gnu",
                    "--sort=name",
                    "--mtime=@0",
                    "--hard-dereference",
                    "--owner=0",
                    "--group=0",
                    "--numeric-owner",
                    "--mode=u=rwX,go=rX",
                    "oci-layout",
                    "index.json",
                    "manifest.json",
                    "blobs",
                    NULL};
    return process_run(argv, &(struct process_options){.folder = folder, .stdout_fd = fd}, err);
}

static int export_image(const struct image *image, int fd, struct error *err)
{
    char *folder = NULL;
    int lock = home_workspace(&folder, err);
    if (lock < 0)
        return lock;
    int result = gather(folder, image, err);
    if (result == 0)
        result = pack(folder, fd, err);
    home_workspace_end(folder, lock);
    free(folder);
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
    progress_begin("Exporting %s", reference);
    result = export_image(&image, fd, err);
    progress_end(result == 0);
    image_release(&image);
    return result;
}
