#include "image/oci/registry.h"

#include <jansson.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "image/oci/challenge.h"
#include "image/oci/manifest.h"

#define TOKEN_MAX ((uint64_t)256 << 10)

static bool is_named_insecure(const char *registry)
{
    const char *list = getenv("MSB_INSECURE_REGISTRIES");
    cleanup_free char *copy = list ? xstrdup(list) : NULL;
    char *rest = copy;
    for (const char *name; rest && (name = strsep(&rest, ", "));) {
        if (strcmp(name, registry) == 0)
            return true;
    }
    return false;
}

void registry_open(struct registry *registry, const struct reference *reference, bool insecure)
{
    bool hub = strcmp(reference->registry, "docker.io") == 0;
    bool plain = insecure || is_named_insecure(reference->registry);
    *registry = (struct registry){
        .name = xstrdup(reference->registry),
        .base = xasprintf("%s://%s", plain ? "http" : "https",
                          hub ? "registry-1.docker.io" : reference->registry),
        .repository = reference->repository ? xstrdup(reference->repository) : NULL,
        .plain = plain};
}

void registry_close(struct registry *registry)
{
    free(registry->name);
    free(registry->base);
    free(registry->repository);
    free(registry->authorization);
    *registry = (struct registry){0};
}

void registry_prepare(const struct registry *registry, const char *path, const char *accept,
                      struct transfer *transfer)
{
    free(transfer->url);
    strv_free(transfer->headers);
    transfer->headers = NULL;
    transfer->url = registry->repository
                        ? xasprintf("%s/v2/%s/%s", registry->base, registry->repository, path)
                        : xasprintf("%s/v2/", registry->base);
    transfer->plain = registry->plain;
    if (accept)
        strv_append(&transfer->headers, xasprintf("Accept: %s", accept));
    if (registry->authorization)
        strv_append(&transfer->headers, xasprintf("Authorization: %s", registry->authorization));
}

/* ---- authorization ------------------------------------------------------------------------- */

static int take_token(struct registry *registry, const struct buf *answer, struct error *err)
{
    json_t *root = json_loadb((const char *)buf_data(answer), buf_length(answer), 0, NULL);
    const char *token = json_string_value(json_object_get(root, "token"));
    if (!token)
        token = json_string_value(json_object_get(root, "access_token"));
    bool usable = token && *token && !strpbrk(token, "\r\n");
    free(registry->authorization);
    registry->authorization = usable ? xasprintf("Bearer %s", token) : NULL;
    json_decref(root);
    return usable ? 0
                  : error_set(err, ERROR_PROTOCOL, "the answer of %s has no token", registry->name);
}

static int fetch_token(struct registry *registry, const struct challenge *challenge,
                       const struct credentials *credentials, struct error *err)
{
    cleanup_buf struct buf answer = {0};
    struct transfer transfer = {.url = challenge_url(challenge),
                                .plain = registry->plain,
                                .limit = TOKEN_MAX,
                                .take = transfer_take_memory,
                                .owner = &answer};
    if (credentials->user) {
        cleanup_free char *basic = credentials_header(credentials);
        strv_append(&transfer.headers, xasprintf("Authorization: %s", basic));
    }
    struct transfer *list[] = {&transfer};
    int result = transfers_run(list, 1, NULL, NULL, err);
    if (result == 0 && (transfer.err.code || transfer.status != 200))
        result = registry_explain(registry, &transfer, "a token", err);
    if (result == 0)
        result = take_token(registry, &answer, err);
    transfer_release(&transfer);
    return result;
}

static int authenticate(struct registry *registry, const char *text,
                        const struct credentials *credentials, struct error *err)
{
    struct challenge challenge;
    int result = challenge_parse(text, &challenge, err);
    if (result < 0)
        return error_wrap(err, "%s asks for an unknown kind of authorization", registry->name);
    if (challenge.realm) {
        result = fetch_token(registry, &challenge, credentials, err);
    } else if (credentials->user) {
        free(registry->authorization);
        registry->authorization = credentials_header(credentials);
    } else {
        error_set(err, ERROR_DENIED, "the registry %s wants a name and a password", registry->name);
        result = error_hint(err, "run `msb login %s` first", registry->name);
    }
    challenge_release(&challenge);
    return result;
}

int registry_authenticate(struct registry *registry, const char *challenge, struct error *err)
{
    struct credentials credentials;
    int result = credentials_find(registry->name, &credentials, err);
    if (result == 0)
        result = authenticate(registry, challenge, &credentials, err);
    credentials_release(&credentials);
    return result;
}

/* ---- requests ------------------------------------------------------------------------------ */

int registry_explain(const struct registry *registry, const struct transfer *transfer,
                     const char *what, struct error *err)
{
    if (transfer->err.code) {
        *err = transfer->err;
        error_wrap(err, "cannot get %s from the registry %s", what, registry->name);
        if (err->code == ERROR_DENIED)
            return error_hint(err,
                              "if you trust it, add its authority to the system's certificates "
                              "(update-ca-certificates) or name the file in SSL_CERT_FILE");
        if (registry->plain || err->code == ERROR_UNAVAILABLE)
            return error_hint(err, "check the network and the name of the registry");
        return error_hint(err,
                          "check the network and the name; a registry without TLS has to be named: "
                          "--insecure, or MSB_INSECURE_REGISTRIES=%s",
                          registry->name);
    }
    switch (transfer->status) {
    case 401:
    case 403:
        error_set(err, ERROR_DENIED, "the registry %s does not let us have %s", registry->name,
                  what);
        return error_hint(err, "check the name of the image; if it is not public: msb login %s",
                          registry->name);
    case 404:
        error_set(err, ERROR_NOT_FOUND, "the registry %s has no %s", registry->name, what);
        return error_hint(err, "check the name and the tag");
    case 429:
        error_set(err, ERROR_LIMIT, "the registry %s has had too many requests from here",
                  registry->name);
        return error_hint(err, "wait a while, or use an account: msb login %s", registry->name);
    default:
        error_set(err, ERROR_UNAVAILABLE, "the registry %s answered with status %ld to %s",
                  registry->name, transfer->status, what);
        return error_hint(err, "try again later");
    }
}

/* Once more with what the registry asks for, when it asks. */
static int get(struct registry *registry, struct transfer *transfer, const char *path,
               const char *accept, struct error *err)
{
    struct transfer *list[] = {transfer};
    registry_prepare(registry, path, accept, transfer);
    int result = transfers_run(list, 1, NULL, NULL, err);
    if (result < 0 || transfer->err.code || transfer->status != 401 || !transfer->challenge)
        return result;
    result = registry_authenticate(registry, transfer->challenge, err);
    if (result < 0)
        return result;
    transfer_reset(transfer);
    registry_prepare(registry, path, accept, transfer);
    return transfers_run(list, 1, NULL, NULL, err);
}

static int check_digest(const struct buf *text, const char *digest, struct error *err)
{
    char hex[65];
    digest_bytes(buf_data(text), buf_length(text), hex);
    if (strcmp(hex, digest + strlen("sha256:")) == 0)
        return 0;
    return error_set(err, ERROR_PROTOCOL, "what came as %s has the digest sha256:%s", digest, hex);
}

int registry_manifest(struct registry *registry, const char *version, struct buf *text,
                      struct error *err)
{
    cleanup_free char *path = xasprintf("manifests/%s", version);
    bool by_digest = digest_is_valid(version);
    cleanup_free char *what =
        xasprintf("%s%c%s", registry->repository, by_digest ? '@' : ':', version);
    struct transfer transfer = {.limit = MANIFEST_MAX, .take = transfer_take_memory, .owner = text};
    int result = get(registry, &transfer, path, MANIFEST_TYPES, err);
    if (result == 0 && (transfer.err.code || transfer.status != 200))
        result = registry_explain(registry, &transfer, what, err);
    transfer_release(&transfer);
    return result == 0 && by_digest ? check_digest(text, version, err) : result;
}

int registry_check_login(struct registry *registry, const struct credentials *credentials,
                         struct error *err)
{
    cleanup_buf struct buf answer = {0};
    struct transfer transfer = {.limit = TOKEN_MAX, .take = transfer_take_memory, .owner = &answer};
    struct transfer *list[] = {&transfer};
    registry_prepare(registry, "", NULL, &transfer);
    int result = transfers_run(list, 1, NULL, NULL, err);
    if (result == 0 && transfer.status == 401 && transfer.challenge) {
        result = authenticate(registry, transfer.challenge, credentials, err);
        transfer_reset(&transfer);
        registry_prepare(registry, "", NULL, &transfer);
        if (result == 0)
            result = transfers_run(list, 1, NULL, NULL, err);
        else
            transfer.status = err->code == ERROR_DENIED ? 401 : 0;
    }
    if (transfer.status == 401 && !transfer.err.code)
        result = error_set(err, ERROR_DENIED, "the registry %s refuses this name or password",
                           registry->name);
    else if (result == 0 && (transfer.err.code || transfer.status >= 300))
        result = registry_explain(registry, &transfer, "an answer", err);
    transfer_release(&transfer);
    return result;
}
