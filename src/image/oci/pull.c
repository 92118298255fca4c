#include "image/oci/pull.h"

#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "image/oci/blobs.h"
#include "image/oci/fetch.h"
#include "image/oci/install.h"
#include "image/oci/manifest.h"
#include "image/oci/registry.h"
#include "image/store.h"

/* For a list of several architectures, the one of this host. */
static int get_manifest(struct registry *registry, const char *version, struct buf *text,
                        struct error *err)
{
    struct descriptor chosen = {0};
    int result = registry_manifest(registry, version, text, err);
    if (result == 0)
        result = manifest_choose(buf_data(text), buf_length(text), &chosen, err);
    if (result < 0 || !chosen.digest)
        return result;
    buf_consume(text, buf_length(text));
    result = registry_manifest(registry, chosen.digest, text, err);
    free(chosen.digest);
    return result;
}

static bool is_current(const char *reference, const struct buf *manifest)
{
    char hex[65];
    struct image image;
    struct error ignored;
    if (store_load(reference, &image, NULL, &ignored) < 0)
        return false;
    digest_bytes(buf_data(manifest), buf_length(manifest), hex);
    bool same =
        image.blobs && image.blobs[0] && strcmp(image.blobs[0] + strlen("sha256:"), hex) == 0;
    image_release(&image);
    return same;
}

/* There is no use in the layers of an image that cannot run here. */
static int get_config(struct registry *registry, const char *title, const struct manifest *manifest,
                      struct error *err)
{
    int result = fetch_blobs(registry, title, &manifest->config, 1, err);
    return result < 0 ? result : install_check(manifest, err);
}

/* *leftovers: what has arrived is of no use any more. */
static int pull_parts(struct registry *registry, const char *reference, const struct buf *text,
                      const struct manifest *manifest, bool *leftovers, struct error *err)
{
    cleanup_free char *title = xasprintf("Pulling %s", reference);
    int result = get_config(registry, title, manifest, err);
    *leftovers = result < 0;
    if (result == 0)
        result = fetch_blobs(registry, title, manifest->layers, manifest->layer_count, err);
    if (result < 0)
        return result;
    result = install_image(reference, text, manifest, err);
    *leftovers = result == 0 || err->code != ERROR_CANCELLED;
    return result;
}

static int pull_from(struct registry *registry, const char *reference, const char *version,
                     bool *changed, bool *leftovers, struct error *err)
{
    struct manifest manifest;
    cleanup_buf struct buf text = {0};
    int result = get_manifest(registry, version, &text, err);
    *changed = result == 0 && !is_current(reference, &text);
    if (!*changed)
        return result;
    result = manifest_parse(buf_data(&text), buf_length(&text), &manifest, err);
    if (result < 0)
        return result;
    result = pull_parts(registry, reference, &text, &manifest, leftovers, err);
    manifest_release(&manifest);
    return result;
}

int pull_image(const char *reference, bool insecure, bool *changed, struct error *err)
{
    bool leftovers = false;
    cleanup_fd int held = blobs_hold(err);
    if (held < 0)
        return held;
    struct registry registry;
    struct reference parts = reference_split(reference);
    registry_open(&registry, &parts, insecure);
    int result = pull_from(&registry, reference, parts.version, changed, &leftovers, err);
    registry_close(&registry);
    reference_release(&parts);
    fd_close(steal_fd(&held));
    if (leftovers)
        blobs_collect();
    return result < 0 ? error_wrap(err, "cannot pull %s", reference) : 0;
}
