#include "image/image.h"

#include <string.h>

#include "base/mem.h"
#include "image/build.h"
#include "image/oci/archive.h"
#include "image/oci/blobs.h"
#include "image/oci/pull.h"
#include "image/recipes.h"
#include "image/reference.h"
#include "image/store.h"

#define DIGEST_PREFIX "sha256:"
#define DIGEST_FRONT_MIN 6

/* The front of a digest as lists show it, with or without "sha256:"; NULL for what is none. */
static const char *digest_front(const char *text)
{
    const char *hex = strncmp(text, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) == 0
                          ? text + strlen(DIGEST_PREFIX)
                          : text;
    size_t length = strlen(hex);
    bool fits =
        length >= DIGEST_FRONT_MIN && length <= 64 && strspn(hex, "0123456789abcdef") == length;
    return fits ? hex : NULL;
}

static bool has_digest(const char *reference, const char *front)
{
    struct error ignored;
    struct image image;
    if (store_load(reference, &image, NULL, &ignored) < 0)
        return false;
    const char *digest = image.blobs && image.blobs[0] ? image.blobs[0] : image.digest;
    bool same = strncmp(digest + strlen(DIGEST_PREFIX), front, strlen(front)) == 0;
    image_release(&image);
    return same;
}

/* NULL when no image in the store has it. */
static int find_by_digest(const char *front, char **reference, struct error *err)
{
    cleanup_strv char **all = NULL;
    int result = image_list(&all, err);
    for (size_t i = 0; result == 0 && all[i]; i++) {
        if (!has_digest(all[i], front))
            continue;
        if (*reference) {
            error_set(err, ERROR_INVALID, "several images have the digest %s", front);
            result = error_hint(err, "name one: %s, %s", *reference, all[i]);
        } else {
            *reference = xstrdup(all[i]);
        }
    }
    if (result < 0)
        free(steal_pointer(reference));
    return result;
}

/* Names come first: one may look like a digest. */
int image_resolve(const char *text, char **reference, struct error *err)
{
    const char *front = digest_front(text);
    cleanup_free char *named = NULL;
    *reference = NULL;
    int result = reference_normalize(text, &named, err);
    if (front && (result < 0 || !store_has(named)))
        result = find_by_digest(front, reference, err);
    if (result == 0 && !*reference)
        *reference = steal_pointer(&named);
    return result;
}

int image_find(const char *reference, struct image *image, struct error *err)
{
    cleanup_free char *full = NULL;
    *image = (struct image){0};
    int result = image_resolve(reference, &full, err);
    if (result < 0)
        return result;
    result = store_load(full, image, NULL, err);
    if (result == 0 || err->code != ERROR_NOT_FOUND)
        return result;
    return error_hint(err,
                      recipe_exists(full) ? "run `msb prepare %s` to build it"
                                          : "run `msb pull %s` to fetch it",
                      full);
}

/* ERROR_NOT_FOUND also for an image that another recipe made. */
static int find_current(const struct recipe *recipe, struct image *image, struct error *err)
{
    cleanup_free char *hash = NULL;
    int result = store_load(recipe->config.reference, image, &hash, err);
    if (result < 0 || (hash && strcmp(hash, recipe->hash) == 0))
        return result;
    image_release(image);
    return error_set(err, ERROR_NOT_FOUND, "the recipe of %s has changed",
                     recipe->config.reference);
}

static int build_once(const struct recipe *recipe, struct image *image, struct error *err)
{
    cleanup_fd int lock = store_lock(recipe->config.reference, err);
    if (lock < 0)
        return lock;
    int result = find_current(recipe, image, err);
    if (result == 0 || err->code != ERROR_NOT_FOUND)
        return result;
    result = build_check_tools(err);
    if (result == 0)
        result = build_image(recipe, err);
    return result < 0 ? result : store_load(recipe->config.reference, image, NULL, err);
}

static int ensure_built(const char *full, struct image *image, struct error *err)
{
    struct recipe recipe = {0};
    int result = recipe_load(full, &recipe, err);
    if (result < 0)
        return result;
    result = find_current(&recipe, image, err);
    if (result < 0 && err->code == ERROR_NOT_FOUND)
        result = build_once(&recipe, image, err);
    recipe_release(&recipe);
    return result;
}

/* Somebody else may have pulled it while we waited for the lock. */
static int pull_once(const char *full, struct image *image, struct error *err)
{
    bool changed;
    cleanup_fd int lock = store_lock(full, err);
    if (lock < 0)
        return lock;
    int result = store_load(full, image, NULL, err);
    if (result == 0 || err->code != ERROR_NOT_FOUND)
        return result;
    result = pull_image(full, false, &changed, err);
    if (result < 0) {
        cleanup_free char *names = recipe_names();
        return error_hint(err, "images that need no registry: %s", names);
    }
    return store_load(full, image, NULL, err);
}

int image_ensure(const char *reference, struct image *image, struct error *err)
{
    cleanup_free char *full = NULL;
    *image = (struct image){0};
    int result = image_resolve(reference, &full, err);
    if (result < 0)
        return result;
    if (recipe_exists(full))
        return ensure_built(full, image, err);
    result = store_load(full, image, NULL, err);
    return result < 0 && err->code == ERROR_NOT_FOUND ? pull_once(full, image, err) : result;
}

int image_pull(const char *reference, bool insecure, struct image *image, bool *changed,
               struct error *err)
{
    cleanup_free char *full = NULL;
    bool ignored;
    *image = (struct image){0};
    int result = reference_normalize(reference, &full, err);
    if (result == 0 && recipe_exists(full)) {
        error_set(err, ERROR_INVALID, "%s is built here, from Debian packages", full);
        return error_hint(err,
                          "run `msb prepare %s`; to pull one of that name, give its registry "
                          "or its tag",
                          full);
    }
    cleanup_fd int lock = result < 0 ? -1 : store_lock(full, err);
    if (lock < 0)
        return -1;
    result = pull_image(full, insecure, changed ? changed : &ignored, err);
    return result < 0 ? result : store_load(full, image, NULL, err);
}

int image_remove(const char *reference, uint64_t *freed, struct error *err)
{
    cleanup_free char *full = NULL;
    *freed = 0;
    int result = image_resolve(reference, &full, err);
    cleanup_fd int lock = result < 0 ? -1 : store_lock(full, err);
    if (lock < 0)
        return -1;
    result = store_remove(full, freed, err);
    if (result == 0)
        *freed += blobs_collect();
    return result;
}

int image_import(const char *path, const char *name, const char *tag, struct image *image,
                 struct error *err)
{
    cleanup_free char *full = NULL;
    *image = (struct image){0};
    int result = archive_import(path, name, tag, &full, err);
    return result < 0 ? result : store_load(full, image, NULL, err);
}

int image_export(const char *reference, int fd, struct error *err)
{
    cleanup_free char *full = NULL;
    int result = image_resolve(reference, &full, err);
    return result < 0 ? result : archive_export(full, fd, err);
}

bool image_is_built_in(const char *reference)
{
    struct error ignored;
    cleanup_free char *full = NULL;
    return reference_normalize(reference, &full, &ignored) == 0 && recipe_exists(full);
}
