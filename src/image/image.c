#include "image/image.h"

#include <string.h>

#include "base/mem.h"
#include "image/build.h"
#include "image/recipes.h"
#include "image/reference.h"
#include "image/store.h"

int image_find(const char *reference, struct image *image, struct error *err)
{
    cleanup_free char *full = NULL;
    *image = (struct image){0};
    int result = reference_normalize(reference, &full, err);
    if (result < 0)
        return result;
    result = store_load(full, image, NULL, err);
    if (result == 0 || err->code != ERROR_NOT_FOUND)
        return result;

    struct recipe recipe = {0};
    struct error unknown;
    if (recipe_load(full, &recipe, &unknown) < 0) {
        *err = unknown;
        return result;
    }
    recipe_release(&recipe);
    return error_hint(err, "run `msb prepare %s` to build it", full);
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

int image_ensure(const char *reference, struct image *image, struct error *err)
{
    cleanup_free char *full = NULL;
    *image = (struct image){0};
    int result = reference_normalize(reference, &full, err);
    struct recipe recipe = {0};
    if (result == 0)
        result = recipe_load(full, &recipe, err);
    if (result < 0)
        return result;
    result = find_current(&recipe, image, err);
    if (result < 0 && err->code == ERROR_NOT_FOUND)
        result = build_once(&recipe, image, err);
    recipe_release(&recipe);
    return result;
}

bool image_is_built_in(const char *reference)
{
    struct error ignored;
    struct recipe recipe = {0};
    cleanup_free char *full = NULL;
    bool known = reference_normalize(reference, &full, &ignored) == 0 &&
                 recipe_load(full, &recipe, &ignored) == 0;
    recipe_release(&recipe);
    return known;
}
