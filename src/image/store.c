#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/mem.h"

#define REFERENCE_LIMIT ((size_t)1 << 20)
#define SUFFIX ".json"

void image_release(struct image *image)
{
    free(image->reference);
    free(image->digest);
    free(image->path);
    free(image->user);
    free(image->workdir);
    strv_free(image->env);
    strv_free(image->command);
    free(image->language);
    strv_free(image->blobs);
    *image = (struct image){0};
}

static char *reference_path(const char *reference)
{
    return home_path("images/refs/%s" SUFFIX, reference);
}

static char *blob_path(const char *digest)
{
    return home_path("images/blobs/sha256-%s.erofs", digest + strlen("sha256:"));
}

static char *take_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? xstrdup(text) : NULL;
}

static char **take_list(const json_t *object, const char *key)
{
    char **list = NULL;
    const json_t *array = json_object_get(object, key);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (text)
            strv_append(&list, xstrdup(text));
    }
    return list;
}

/* Paths are made of them. */
static char **take_digests(const json_t *object, const char *key)
{
    cleanup_strv char **list = take_list(object, key);
    for (size_t i = 0; list && list[i]; i++) {
        if (!digest_is_valid(list[i]))
            return NULL;
    }
    return steal_pointer(&list);
}

static int decode(const json_t *root, struct image *image, char **recipe_hash, struct error *err)
{
    const json_t *config = json_object_get(root, "config");
    image->digest = take_text(root, "digest");
    image->size = (uint64_t)json_integer_value(json_object_get(root, "size"));
    image->user = take_text(config, "user");
    image->workdir = take_text(config, "workdir");
    image->env = take_list(config, "env");
    image->command = take_list(config, "command");
    image->language = take_text(config, "language");
    image->blobs = take_digests(root, "blobs");
    image->created_us = (uint64_t)json_integer_value(json_object_get(root, "created")) * 1000000;
    if (!image->digest || !digest_is_valid(image->digest) || !image->user || !image->workdir)
        return error_set(err, ERROR_NOT_FOUND, "the image %s is damaged in the store",
                         image->reference);
    image->path = blob_path(image->digest);
    if (recipe_hash)
        *recipe_hash = take_text(root, "recipe_hash");
    return 0;
}

static int check_blob(const struct image *image, struct error *err)
{
    struct stat status;
    if (stat(image->path, &status) == 0 && S_ISREG(status.st_mode) &&
        (uint64_t)status.st_size == image->size)
        return 0;
    return error_set(err, ERROR_NOT_FOUND, "the image %s is in the store, but its file %s is not",
                     image->reference, image->path);
}

/* NULL also for a file that is no JSON; only one that cannot be read is an error. */
static int read_reference(const char *reference, json_t **root, struct error *err)
{
    cleanup_free char *path = reference_path(reference);
    cleanup_buf struct buf text = {0};
    int result = file_read(path, REFERENCE_LIMIT, &text, err);
    if (result < 0 && err->code == ERROR_NOT_FOUND)
        return error_set(err, ERROR_NOT_FOUND, "the image %s is not in the store", reference);
    if (result == 0)
        *root = json_loadb((const char *)buf_data(&text), buf_length(&text), 0, NULL);
    return result;
}

bool store_has(const char *reference)
{
    cleanup_free char *path = reference_path(reference);
    return file_exists(path);
}

int store_load_blobs(const char *reference, char ***blobs, struct error *err)
{
    json_auto_t *root = NULL;
    int result = read_reference(reference, &root, err);
    *blobs = take_digests(root, "blobs");
    return result;
}

int store_load(const char *reference, struct image *image, char **recipe_hash, struct error *err)
{
    json_auto_t *root = NULL;
    *image = (struct image){.reference = xstrdup(reference)};
    int result = read_reference(reference, &root, err);
    if (result == 0)
        result = decode(root, image, recipe_hash, err);
    if (result == 0)
        result = check_blob(image, err);
    if (result < 0)
        image_release(image);
    return result;
}

static json_t *json_list(char *const *list)
{
    json_t *array = json_array();
    for (; list && *list; list++)
        json_array_append_new(array, json_string(*list));
    return array;
}

static json_t *encode(const struct image *config, const char *digest, uint64_t size,
                      const char *recipe_hash)
{
    return json_pack("{s:s, s:I, s:s*, s:o, s:I, s:{s:s, s:s, s:o, s:o, s:s?}}", "digest", digest,
                     "size", (json_int_t)size, "recipe_hash", recipe_hash, "blobs",
                     json_list(config->blobs), "created",
                     (json_int_t)(clock_realtime_us() / 1000000), "config", "user", config->user,
                     "workdir", config->workdir, "env", json_list(config->env), "command",
                     json_list(config->command), "language", config->language);
}

/* Makes the folders above a file. */
static int make_parents(const char *path, struct error *err)
{
    cleanup_free char *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    return folder_make(folder, 0755, err);
}

static int write_reference(const char *reference, const json_t *root, struct error *err)
{
    cleanup_free char *path = reference_path(reference);
    cleanup_free char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!text)
        return error_set(err, ERROR_INVALID, "the image %s has text that is not UTF-8", reference);
    int result = make_parents(path, err);
    return result < 0 ? result : file_write_atomic(path, text, strlen(text), 0644, err);
}

/* On disk for good before a reference names it. */
static int settle_blob(const char *blob, const char *place, struct error *err)
{
    int result = make_parents(place, err);
    if (result < 0)
        return result;
    cleanup_fd int fd = open(blob, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0444) < 0 || fsync(fd) < 0 || rename(blob, place) < 0)
        return error_errno(err, errno, "cannot move the image to %s", place);
    return 0;
}

int store_lock(const char *reference, struct error *err)
{
    cleanup_free char *path = home_path("images/locks/%s", reference);
    cleanup_free char *work = xasprintf("makes the image %s", reference);
    int result = make_parents(path, err);
    if (result < 0)
        return error_hint(err, "set MSB_HOME to a folder you may write to");
    return lock_wait(path, work, err);
}

/* The reference that a file below refs/ stands for; NULL when it is something else. */
static char *reference_of(const FTSENT *entry, size_t root_length)
{
    const char *below = entry->fts_path + root_length + 1;
    size_t length = strlen(below);
    const size_t suffix = sizeof SUFFIX - 1;
    if (entry->fts_info != FTS_F || length <= suffix ||
        strcmp(below + length - suffix, SUFFIX) != 0)
        return NULL;
    return xstrndup(below, length - suffix);
}

static int compare_entries(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

int image_list(char ***references, struct error *err)
{
    cleanup_free char *root = home_path("images/refs");
    *references = xcalloc(1, sizeof **references);
    if (!file_exists(root))
        return 0;
    FTS *tree = fts_open((char *[]){root, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, compare_entries);
    if (!tree)
        return error_errno(err, errno, "cannot read %s", root);
    for (const FTSENT *entry; (entry = fts_read(tree));) {
        char *reference = reference_of(entry, strlen(root));
        if (reference)
            strv_append(references, reference);
    }
    fts_close(tree);
    return 0;
}

/* Removes the file of an image that was replaced or removed, unless another reference stands for it
 * too. Returns its size when it is gone. */
static uint64_t forget_blob(const struct image *image)
{
    struct error ignored;
    cleanup_strv char **references = NULL;
    bool used = image_list(&references, &ignored) < 0;
    for (size_t i = 0; !used && references && references[i]; i++) {
        struct image other;
        if (store_load(references[i], &other, NULL, &ignored) < 0)
            continue;
        used = other.digest && strcmp(other.digest, image->digest) == 0;
        image_release(&other);
    }
    return !used && unlink(image->path) == 0 ? image->size : 0;
}

int store_remove(const char *reference, uint64_t *freed, struct error *err)
{
    struct error ignored;
    struct image image;
    cleanup_free char *path = reference_path(reference);
    bool whole = store_load(reference, &image, NULL, &ignored) == 0;
    *freed = 0;
    int result = 0;
    if (unlink(path) < 0)
        result = errno == ENOENT ? error_set(err, ERROR_NOT_FOUND,
                                             "the image %s is not in the store", reference)
                                 : error_errno(err, errno, "cannot remove %s", path);
    if (whole && result == 0)
        *freed = forget_blob(&image);
    if (whole)
        image_release(&image);
    return result;
}

/* Fills in digest and size. */
static int take_blob(const char *blob, char **digest, uint64_t *size, struct error *err)
{
    char hex[65];
    struct stat status;
    int result = digest_file(blob, hex, err);
    if (result < 0)
        return result;
    if (stat(blob, &status) < 0)
        return error_errno(err, errno, "cannot read %s", blob);
    *digest = xasprintf("sha256:%s", hex);
    *size = (uint64_t)status.st_size;
    cleanup_free char *place = blob_path(*digest);
    return settle_blob(blob, place, err);
}

int store_add(const char *blob, const struct image *config, const char *recipe_hash,
              struct error *err)
{
    cleanup_free char *digest = config->digest ? xstrdup(config->digest) : NULL;
    uint64_t size = config->size;
    if (blob) {
        free(steal_pointer(&digest));
        int result = take_blob(blob, &digest, &size, err);
        if (result < 0)
            return result;
    }
    struct error none;
    struct image before;
    bool replaces = store_load(config->reference, &before, NULL, &none) == 0;
    json_auto_t *root = encode(config, digest, size, recipe_hash);
    int result = write_reference(config->reference, root, err);
    if (replaces) {
        if (result == 0)
            forget_blob(&before);
        image_release(&before);
    }
    return result;
}
