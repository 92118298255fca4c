#include "image/oci/manifest.h"

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/json_text.h"
#include "base/mem.h"

#define LAYER_MAX ((json_int_t)64 << 30)
#define LIST_MAX 1024
#define WORDS_MAX 4096
#define WORDS_BYTES_MAX (128u * 1024)
#define INDEX_TYPE "application/vnd.oci.image.index.v1+json"
#define DOCKER_LIST_TYPE "application/vnd.docker.distribution.manifest.list.v2+json"

const char *manifest_architecture(void)
{
#if defined __x86_64__
    return "amd64";
#elif defined __aarch64__
    return "arm64";
#else
#error "tell what registries call this architecture"
#endif
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_t *parse(const void *text, size_t length, const char *what, struct error *err)
{
    json_error_t place;
    json_t *root = json_loadb(text, length, 0, &place);
    if (json_is_object(root))
        return root;
    json_text_clean(place.text);
    error_set(err, ERROR_PROTOCOL, "its %s is no JSON object%s%s", what, root ? "" : ": ",
              root ? "" : place.text);
    error_hint(err, "check the name; whoever publishes the image may have to repair it");
    json_decref(root);
    return NULL;
}

static int take_descriptor(const json_t *entry, struct descriptor *descriptor, struct error *err)
{
    const char *digest = text_at(entry, "digest");
    const json_t *size = json_object_get(entry, "size");
    if (!digest_is_valid(digest))
        return error_set(err, ERROR_PROTOCOL, "it has something else than a sha256 digest");
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        json_integer_value(size) > LAYER_MAX)
        return error_set(err, ERROR_PROTOCOL, "the size of %.19s is missing or absurd", digest);
    descriptor->digest = xstrdup(digest);
    descriptor->size = (uint64_t)json_integer_value(size);
    return 0;
}

static bool suits(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    return strcmp(text_at(platform, "os"), "linux") == 0 &&
           strcmp(text_at(platform, "architecture"), manifest_architecture()) == 0;
}

static int refuse_list(const json_t *list, struct error *err)
{
    cleanup_buf struct buf names = {0};
    for (size_t i = 0; i < json_array_size(list) && buf_length(&names) < 200; i++) {
        const json_t *platform = json_object_get(json_array_get(list, i), "platform");
        const char *variant = text_at(platform, "variant");
        cleanup_free char *name =
            xasprintf("%.20s/%.20s%s%.10s", text_at(platform, "os"),
                      text_at(platform, "architecture"), *variant ? "/" : "", variant);
        json_text_clean(name);
        buf_printf(&names, "%s%s", i ? ", " : "", name);
    }
    error_set(err, ERROR_NOT_FOUND, "there is none for linux/%s", manifest_architecture());
    return error_hint(err, "there is: %s", buf_length(&names) ? buf_text(&names) : "nothing");
}

int manifest_choose(const void *text, size_t length, struct descriptor *chosen, struct error *err)
{
    *chosen = (struct descriptor){0};
    json_auto_t *root = parse(text, length, "manifest", err);
    if (!root)
        return -1;
    const json_t *list = json_object_get(root, "manifests");
    const char *type = text_at(root, "mediaType");
    if (!list && strcmp(type, INDEX_TYPE) != 0 && strcmp(type, DOCKER_LIST_TYPE) != 0)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > LIST_MAX)
        return error_set(err, ERROR_PROTOCOL, "its list of manifests is missing or absurd");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (suits(json_array_get(list, i)))
            return take_descriptor(json_array_get(list, i), chosen, err);
    }
    /* Tools for one architecture leave the platform out. */
    const json_t *only = json_array_size(list) == 1 ? json_array_get(list, 0) : NULL;
    if (only && !json_object_get(only, "platform"))
        return take_descriptor(only, chosen, err);
    return refuse_list(list, err);
}

static int check_layer_type(const char *type, struct error *err)
{
    static const char *const known[] = {
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], type) == 0)
            return 0;
    }
    cleanup_free char *shown = xasprintf("%.100s", type);
    json_text_clean(shown);
    return error_set(err, ERROR_INVALID, "it has a layer of a kind that is not known: %s",
                     *shown ? shown : "none");
}

static int take_layers(const json_t *list, struct manifest *manifest, struct error *err)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > LAYERS_MAX)
        return error_set(err, ERROR_PROTOCOL, "it has no layers, or more than %d", LAYERS_MAX);
    manifest->layers = xcalloc(count + 1, sizeof *manifest->layers);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        int result = check_layer_type(text_at(entry, "mediaType"), err);
        if (result == 0)
            result = take_descriptor(entry, &manifest->layers[i], err);
        if (result < 0)
            return result;
        manifest->layer_count++;
    }
    return 0;
}

int manifest_parse(const void *text, size_t length, struct manifest *manifest, struct error *err)
{
    *manifest = (struct manifest){0};
    json_auto_t *root = parse(text, length, "manifest", err);
    if (!root)
        return -1;
    if (json_integer_value(json_object_get(root, "schemaVersion")) != 2) {
        error_set(err, ERROR_INVALID, "its manifest has a format that is not known");
        return error_hint(err, "docker's first format is no longer in use; push the image again");
    }
    int result = take_descriptor(json_object_get(root, "config"), &manifest->config, err);
    if (result == 0 && manifest->config.size > CONFIG_MAX)
        result = error_set(err, ERROR_LIMIT, "its configuration is too long");
    if (result == 0)
        result = take_layers(json_object_get(root, "layers"), manifest, err);
    if (result < 0)
        manifest_release(manifest);
    return result;
}

static int append_words(char ***list, const json_t *array, struct error *err)
{
    size_t bytes = 0;
    if (json_array_size(array) > WORDS_MAX)
        return error_set(err, ERROR_LIMIT, "its configuration has too many words");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text || (bytes += strlen(text)) > WORDS_BYTES_MAX)
            return error_set(err, ERROR_LIMIT, "its configuration has too long a list");
        strv_append(list, xstrdup(text));
    }
    return 0;
}

/* Only NAME=value can be an environment; what is something else is left out, as elsewhere. */
static int take_env(const json_t *array, struct image *image, struct error *err)
{
    cleanup_strv char **all = NULL;
    int result = append_words(&all, array, err);
    for (size_t i = 0; result == 0 && all && all[i]; i++) {
        const char *equals = strchr(all[i], '=');
        if (equals && equals != all[i])
            strv_append(&image->env, xstrdup(all[i]));
    }
    return result;
}

static int check_platform(const json_t *root, struct error *err)
{
    const char *os = text_at(root, "os"), *architecture = text_at(root, "architecture");
    if ((!*os || strcmp(os, "linux") == 0) &&
        (!*architecture || strcmp(architecture, manifest_architecture()) == 0))
        return 0;
    cleanup_free char *name = xasprintf("%.30s/%.30s", os, architecture);
    json_text_clean(name);
    error_set(err, ERROR_INVALID, "it is for %s, and this host is linux/%s", name,
              manifest_architecture());
    return error_hint(err, "ask whoever publishes it for one for linux/%s",
                      manifest_architecture());
}

int manifest_config(const void *text, size_t length, struct image *image, struct error *err)
{
    *image = (struct image){0};
    json_auto_t *root = parse(text, length, "configuration", err);
    if (!root)
        return -1;
    const json_t *config = json_object_get(root, "config");
    const char *user = text_at(config, "User"), *workdir = text_at(config, "WorkingDir");
    int result = check_platform(root, err);
    if (result == 0)
        result = take_env(json_object_get(config, "Env"), image, err);
    if (result == 0)
        result = append_words(&image->command, json_object_get(config, "Entrypoint"), err);
    if (result == 0)
        result = append_words(&image->command, json_object_get(config, "Cmd"), err);
    if (result == 0 && (strlen(user) > 200 || strlen(workdir) > 1000))
        result = error_set(err, ERROR_LIMIT, "its user or its working folder is too long");
    if (result < 0) {
        image_release(image);
        return result;
    }
    image->user = xstrdup(*user ? user : "root");
    image->workdir = xasprintf("%s%s", workdir[0] == '/' ? "" : "/", workdir);
    return 0;
}

void manifest_release(struct manifest *manifest)
{
    free(manifest->config.digest);
    for (size_t i = 0; i < manifest->layer_count; i++)
        free(manifest->layers[i].digest);
    free(manifest->layers);
    *manifest = (struct manifest){0};
}
