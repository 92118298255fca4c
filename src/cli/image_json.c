#include "cli/image_json.h"

static json_t *list_from(char *const *list, size_t skip)
{
    json_t *array = json_array();
    for (size_t i = 0; list && list[i]; i++) {
        if (i >= skip)
            json_array_append_new(array, json_string(list[i]));
    }
    return array;
}

json_t *image_to_json(const struct image *image)
{
    char *const *blobs = image->blobs;
    return json_pack("{s:s, s:s, s:s?, s:o, s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:s?}", "name",
                     image->reference, "root_digest", image->digest, "manifest",
                     blobs ? blobs[0] : NULL, "layers", list_from(blobs, 2), "size",
                     (json_int_t)image->size, "created_us", (json_int_t)image->created_us, "file",
                     image->path, "user", image->user, "workdir", image->workdir, "env",
                     list_from(image->env, 0), "command", list_from(image->command, 0), "language",
                     image->language);
}
