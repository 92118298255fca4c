/* What a hostile registry says: what is taken has digests that are safe as names, and sane sizes.
 */
#include <assert.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "image/oci/challenge.h"
#include "image/oci/manifest.h"

static void check_manifest(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct manifest manifest;
    if (manifest_parse(data, size, &manifest, &err) < 0) {
        assert(err.code && err.message[0]);
        return;
    }
    assert(digest_is_valid(manifest.config.digest) && manifest.config.size <= CONFIG_MAX);
    assert(manifest.layer_count <= LAYERS_MAX);
    for (size_t i = 0; i < manifest.layer_count; i++)
        assert(digest_is_valid(manifest.layers[i].digest));
    manifest_release(&manifest);
}

static void check_list(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct descriptor chosen;
    if (manifest_choose(data, size, &chosen, &err) == 0 && chosen.digest)
        assert(digest_is_valid(chosen.digest));
    free(chosen.digest);
}

static void check_config(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct image image;
    if (manifest_config(data, size, &image, &err) < 0)
        return;
    assert(image.user[0] && image.workdir[0] == '/');
    for (char **variable = image.env; variable && *variable; variable++)
        assert(strchr(*variable, '=') > *variable);
    image_release(&image);
}

static void check_challenge(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct challenge challenge;
    cleanup_free char *header = xstrndup((const char *)data, size);
    if (challenge_parse(header, &challenge, &err) < 0)
        return;
    cleanup_free char *url = challenge.realm ? challenge_url(&challenge) : NULL;
    challenge_release(&challenge);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_manifest(data, size);
    check_list(data, size);
    check_config(data, size);
    check_challenge(data, size);
    return 0;
}
