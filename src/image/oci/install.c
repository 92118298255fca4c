#include "image/oci/install.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/progress.h"
#include "image/oci/blobs.h"
#include "image/oci/unpack.h"
#include "image/pack.h"
#include "image/store.h"
#include "image/userns.h"

#define LAYERS_AT 2 /* in the list of blobs, after the manifest and the configuration */
#define EMPTIED "dev|proc|sys|run"
#define USUAL_COMPRESSION 6

static char **list_blobs(const struct buf *manifest_text, const struct manifest *manifest)
{
    char hex[65];
    char **blobs = NULL;
    digest_bytes(buf_data(manifest_text), buf_length(manifest_text), hex);
    strv_append(&blobs, xasprintf("sha256:%s", hex));
    strv_append(&blobs, xstrdup(manifest->config.digest));
    for (size_t i = 0; i < manifest->layer_count; i++)
        strv_append(&blobs, xstrdup(manifest->layers[i].digest));
    return blobs;
}

static bool same_layers(char *const *one, char *const *other)
{
    size_t count = strv_length(one);
    if (strv_length(other) != count || count < LAYERS_AT)
        return false;
    for (size_t i = LAYERS_AT; i < count; i++) {
        if (strcmp(one[i], other[i]) != 0)
            return false;
    }
    return true;
}

/* The working folder is made in the root, so it has to be the same too. */
static bool find_twin(struct image *image)
{
    struct error ignored;
    cleanup_strv char **references = NULL;
    bool found = false;
    if (image_list(&references, &ignored) < 0)
        return false;
    for (size_t i = 0; !found && references[i]; i++) {
        struct image other = {0};
        if (store_load(references[i], &other, NULL, &ignored) < 0)
            continue;
        found =
            same_layers(image->blobs, other.blobs) && strcmp(image->workdir, other.workdir) == 0;
        if (found) {
            image->digest = xstrdup(other.digest);
            image->size = other.size;
            image->language = other.language ? xstrdup(other.language) : NULL;
        }
        image_release(&other);
    }
    return found;
}

/* Half of what is free now, if that is plenty for layers of that size; otherwise 0. */
static uint64_t memory_for(char *const *layers)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    unsigned long long free_kb = 0;
    uint64_t compressed = 0;
    if (file_read("/proc/meminfo", 65536, &text, &ignored) < 0)
        return 0;
    const char *line = strstr(buf_text(&text), "MemAvailable:");
    if (!line || sscanf(line, "MemAvailable: %llu kB", &free_kb) != 1)
        return 0;
    for (; *layers; layers++) {
        struct stat status;
        if (stat(*layers, &status) == 0)
            compressed += (uint64_t)status.st_size;
    }
    uint64_t usable = (uint64_t)free_kb * 1024 / 2;
    return compressed * USUAL_COMPRESSION < usable ? usable : 0;
}

static int make_blob(const char *root, const char *blob, struct image *image, struct error *err)
{
    cleanup_strv char **layers = xcalloc(1, sizeof *layers);
    for (size_t i = LAYERS_AT; image->blobs[i]; i++)
        strv_append(&layers, blobs_path(image->blobs[i]));
    uint64_t memory = memory_for(layers);
    if (memory > 0) {
        int result = unpack_in_memory(root, memory, layers, blob, EMPTIED, image, err);
        if (result == 0 || (err->code != ERROR_NO_SPACE && err->code != ERROR_IO))
            return result;
    }
    int result = unpack_layers(root, layers, image, err);
    return result < 0 ? result : pack_root(root, blob, EMPTIED, err);
}

static int unpack_and_pack(struct image *image, const char *folder, struct error *err)
{
    cleanup_free char *root = xasprintf("%s/root", folder);
    cleanup_free char *blob = xasprintf("%s/image.erofs", folder);
    progress_begin("Unpacking %s", image->reference);
    int result = folder_make(root, 0755, err);
    if (result == 0)
        result = make_blob(root, blob, image, err);
    if (result == 0)
        result = store_add(blob, image, NULL, err);
    progress_end(result == 0);
    userns_remove(root);
    return result;
}

static int unpack_image(struct image *image, struct error *err)
{
    cleanup_free char *tmp = home_path("tmp");
    cleanup_free char *folder = NULL;
    int result = pack_check_tools(err);
    if (result < 0)
        return result;
    userns_sweep(tmp);
    int lock = home_workspace(&folder, err);
    if (lock < 0)
        return lock;
    result = unpack_and_pack(image, folder, err);
    home_workspace_end(folder, lock);
    return result < 0 && err->code == ERROR_NO_SPACE ? error_hint(err, SPACE_HINT) : result;
}

static int read_config(const struct manifest *manifest, struct image *image, struct error *err)
{
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = blobs_path(manifest->config.digest);
    int result = file_read(path, CONFIG_MAX, &text, err);
    return result < 0 ? result : manifest_config(buf_data(&text), buf_length(&text), image, err);
}

int install_check(const struct manifest *manifest, struct error *err)
{
    struct image image = {0};
    int result = read_config(manifest, &image, err);
    image_release(&image);
    return result;
}

int install_image(const char *reference, const struct buf *manifest_text,
                  const struct manifest *manifest, struct error *err)
{
    struct image image;
    int result = read_config(manifest, &image, err);
    if (result < 0)
        return result;
    image.reference = xstrdup(reference);
    image.blobs = list_blobs(manifest_text, manifest);
    result = blobs_write(buf_data(manifest_text), buf_length(manifest_text), image.blobs[0], err);
    if (result == 0)
        result = find_twin(&image) ? store_add(NULL, &image, NULL, err) : unpack_image(&image, err);
    image_release(&image);
    return result;
}
