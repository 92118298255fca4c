#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/progress.h"
#include "image/oci/archive.h"
#include "image/oci/blobs.h"
#include "image/oci/import_internal.h"
#include "image/oci/install.h"
#include "image/oci/unpack.h"
#include "image/pack.h"
#include "image/recipes.h"
#include "image/reference.h"
#include "image/store.h"
#include "image/userns.h"

#define LISTS_MAX 4 /* lists in lists */
#define NAMES_SHOWN 8

/* ---- files of the archive ------------------------------------------------------------------ */

/* ERROR_NOT_FOUND for what is no plain file, too. */
static int open_file(const struct import *import, const char *path, struct error *err)
{
    struct stat status;
    cleanup_fd int fd = tree_look(&import->folder, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(err, ERROR_NOT_FOUND, "it has no file %.200s", path);
    return steal_fd(&fd);
}

static int read_small(const struct import *import, const char *path, struct buf *text,
                      struct error *err)
{
    cleanup_fd int fd = open_file(import, path, err);
    if (fd < 0)
        return fd;
    cleanup_free char *place = xasprintf("/proc/self/fd/%d", fd);
    return file_read(place, MANIFEST_MAX, text, err);
}

json_t *import_read_json(const struct import *import, const char *path, struct error *err)
{
    cleanup_buf struct buf text = {0};
    if (read_small(import, path, &text, err) < 0)
        return NULL;
    json_t *root = json_loadb((const char *)buf_data(&text), buf_length(&text), 0, NULL);
    if (!root)
        error_set(err, ERROR_INVALID, "its file %.200s is no JSON", path);
    return root;
}

/* Copies first and looks then: what is in the archive could change meanwhile. */
int import_take_blob(const struct import *import, const char *path, char **digest, uint64_t *size,
                     struct error *err)
{
    struct stat status = {0};
    char hex[65] = "";
    cleanup_fd int fd = open_file(import, path, err);
    if (fd < 0)
        return fd;
    cleanup_free char *from = xasprintf("/proc/self/fd/%d", fd);
    cleanup_free char *copy = home_path("images/partial/import-%d", getpid());
    int result = file_copy(from, copy, 0644, err);
    if (result == 0)
        result = digest_file(copy, hex, err);
    cleanup_free char *found = xasprintf("sha256:%s", hex);
    if (result == 0 && *digest && strcmp(*digest, found) != 0)
        result =
            error_set(err, ERROR_INVALID, "its file %.200s has another digest: %s", path, found);
    if (result == 0 && stat(copy, &status) < 0)
        result = error_errno(err, errno, "cannot look at %s", copy);
    if (result == 0)
        result = blobs_take(copy, found, err);
    if (result < 0) {
        unlink(copy);
        return result;
    }
    *size = (uint64_t)status.st_size;
    if (!*digest)
        *digest = steal_pointer(&found);
    return 0;
}

int import_refuse_several(const json_t *list, const char *(*name_of)(const json_t *entry),
                          struct error *err)
{
    cleanup_buf struct buf names = {0};
    for (size_t i = 0; i < json_array_size(list) && i < NAMES_SHOWN; i++) {
        const char *name = name_of(json_array_get(list, i));
        buf_printf(&names, "%s%.60s", i ? ", " : "", name ? name : "one without a name");
    }
    cleanup_free char *shown = xstrdup(buf_text(&names));
    json_text_clean(shown);
    error_set(err, ERROR_INVALID, "it has several images");
    return error_hint(err, "choose one with --tag: %s", shown);
}

int import_refuse_tag(const struct import *import, struct error *err)
{
    if (!import->tag)
        return error_set(err, ERROR_NOT_FOUND, "it has no image");
    error_set(err, ERROR_NOT_FOUND, "it has no image with the tag %.100s", import->tag);
    return error_hint(err, "leave --tag out to be told which there are");
}

/* ---- the layout of OCI --------------------------------------------------------------------- */

static char *layout_path(const char *digest)
{
    return xasprintf("blobs/sha256/%s", digest + strlen("sha256:"));
}

static const char *annotation(const json_t *entry, const char *key)
{
    return json_string_value(json_object_get(json_object_get(entry, "annotations"), key));
}

static const char *layout_name(const json_t *entry)
{
    return annotation(entry, "org.opencontainers.image.ref.name");
}

/* With a tag, the index is reduced to the entry that has it. */
static int choose_tag(struct import *import, json_t *index, struct error *err)
{
    json_t *list = json_object_get(index, "manifests");
    for (size_t i = json_array_size(list); import->tag && i-- > 0;) {
        const char *name = layout_name(json_array_get(list, i));
        if (!name || strcmp(name, import->tag) != 0)
            json_array_remove(list, i);
    }
    const json_t *first = json_array_get(list, 0);
    if (!first)
        return import_refuse_tag(import, err);
    if (json_array_size(list) > 1 && !json_object_get(first, "platform"))
        return import_refuse_several(list, layout_name, err);
    const char *full = annotation(first, "io.containerd.image.name");
    const char *short_name = layout_name(first);
    if (!import->name && full)
        import->name = xstrdup(full);
    else if (!import->name && short_name && strchr(short_name, '/'))
        import->name = xstrdup(short_name);
    return 0;
}

static int check_text(const struct buf *text, const char *digest, struct error *err)
{
    char hex[65];
    digest_bytes(buf_data(text), buf_length(text), hex);
    if (strcmp(hex, digest + strlen("sha256:")) == 0)
        return 0;
    return error_set(err, ERROR_INVALID, "its manifest %s has another digest", digest);
}

static int find_manifest(struct import *import, const json_t *index, struct error *err)
{
    cleanup_free char *first = json_dumps(index, JSON_COMPACT);
    buf_append_text(&import->manifest_text, first);
    for (int i = 0; i < LISTS_MAX; i++) {
        struct descriptor chosen;
        struct buf *text = &import->manifest_text;
        int result = manifest_choose(buf_data(text), buf_length(text), &chosen, err);
        if (result < 0 || !chosen.digest)
            return result;
        cleanup_free char *digest = chosen.digest;
        cleanup_free char *path = layout_path(digest);
        buf_consume(text, buf_length(text));
        result = read_small(import, path, text, err);
        if (result == 0)
            result = check_text(text, digest, err);
        if (result < 0)
            return result;
    }
    return error_set(err, ERROR_INVALID, "its lists of manifests are nested too deep");
}

static int take_described(const struct import *import, struct descriptor *blob, struct error *err)
{
    uint64_t size = 0;
    cleanup_free char *path = layout_path(blob->digest);
    if (blobs_have(blob->digest, blob->size))
        return 0;
    int result = import_take_blob(import, path, &blob->digest, &size, err);
    if (result == 0 && size != blob->size)
        return error_set(err, ERROR_INVALID, "its file %.80s has another size", path);
    return result;
}

static int import_layout(struct import *import, struct error *err)
{
    json_auto_t *index = import_read_json(import, "index.json", err);
    if (!index)
        return -1;
    int result = choose_tag(import, index, err);
    if (result == 0)
        result = find_manifest(import, index, err);
    if (result == 0)
        result = manifest_parse(buf_data(&import->manifest_text),
                                buf_length(&import->manifest_text), &import->manifest, err);
    if (result == 0)
        result = take_described(import, &import->manifest.config, err);
    for (size_t i = 0; result == 0 && i < import->manifest.layer_count; i++) {
        progress_detail("layer %zu of %zu", i + 1, import->manifest.layer_count);
        result = take_described(import, &import->manifest.layers[i], err);
    }
    return result;
}

/* ---- all together -------------------------------------------------------------------------- */

static int find_name(const struct import *import, char **reference, struct error *err)
{
    if (!import->name) {
        error_set(err, ERROR_INVALID, "the archive does not say what the image is called");
        return error_hint(err, "give it a name: msb image import FILE NAME");
    }
    int result = reference_normalize(import->name, reference, err);
    if (result < 0 || !recipe_exists(*reference))
        return result;
    error_set(err, ERROR_INVALID, "%s is the name of an image that is built here", *reference);
    return error_hint(err, "give it another name: msb image import FILE NAME");
}

static int take_all(struct import *import, char **reference, struct error *err)
{
    struct error none;
    progress_begin("Importing");
    cleanup_fd int layout = open_file(import, "index.json", &none);
    int result = layout >= 0 ? import_layout(import, err) : import_docker(import, err);
    progress_end(result == 0);
    if (result < 0 && layout < 0 && err->code == ERROR_NOT_FOUND)
        error_hint(err, "it should be a layout of OCI or an archive of docker save");
    if (result == 0)
        result = find_name(import, reference, err);
    cleanup_fd int lock = result < 0 ? -1 : store_lock(*reference, err);
    if (lock < 0)
        return -1;
    return install_image(*reference, &import->manifest_text, &import->manifest, err);
}

static int import_folder(const char *path, const char *name, const char *tag, char **reference,
                         struct error *err)
{
    cleanup_fd int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_errno(err, errno, "cannot open %s", path);
    cleanup_fd int held = blobs_hold(err);
    if (held < 0)
        return held;
    struct import import = {.tag = tag, .name = name ? xstrdup(name) : NULL};
    tree_open(&import.folder, folder);
    int result = take_all(&import, reference, err);
    tree_close(&import.folder);
    manifest_release(&import.manifest);
    buf_free(&import.manifest_text);
    free(import.name);
    fd_close(steal_fd(&held));
    blobs_collect();
    return result;
}

/* The archive itself is taken apart by the same confined process as layers are. */
static int import_archive(const char *path, const char *name, const char *tag, char **reference,
                          struct error *err)
{
    cleanup_free char *workplace = NULL;
    cleanup_free char *archive = realpath(path, NULL);
    int lock = archive ? home_workspace(&workplace, err) : -1;
    if (!archive)
        return error_errno(err, errno, "cannot open %s", path);
    if (lock < 0)
        return lock;
    cleanup_free char *folder = xasprintf("%s/archive", workplace);
    struct image nothing = {.workdir = "/"};
    char *layers[] = {archive, NULL};
    progress_begin("Reading %s", path);
    int result = folder_make(folder, 0755, err);
    if (result == 0)
        result = unpack_layers(folder, layers, &nothing, err);
    progress_end(result == 0);
    free(nothing.language);
    if (result == 0)
        result = import_folder(folder, name, tag, reference, err);
    userns_remove(folder);
    home_workspace_end(workplace, lock);
    return result;
}

int archive_import(const char *path, const char *name, const char *tag, char **reference,
                   struct error *err)
{
    struct stat status;
    *reference = NULL;
    if (stat(path, &status) < 0)
        return error_errno(err, errno, "cannot open %s", path);
    int result = pack_check_tools(err);
    if (result == 0)
        result = S_ISDIR(status.st_mode) ? import_folder(path, name, tag, reference, err)
                                         : import_archive(path, name, tag, reference, err);
    return result < 0 ? error_wrap(err, "cannot import %s", path) : 0;
}
