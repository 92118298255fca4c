#include "image/reference.h"

#include <stdbool.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "image/recipes.h"

/* With ".json" behind it, the last part has to be the name of a file. */
#define REFERENCE_MAX 240
#define TAG_MAX 128
#define OUR_NAMESPACE "microsandbox"
#define DOCKER_HUB "docker.io"
#define DEFAULT_NAMESPACE "library"
#define DEFAULT_TAG "latest"

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* One part of a path: separators only between letters and digits, so never "..". */
static bool is_component(const char *text, size_t length)
{
    bool after_separator = true;
    for (size_t i = 0; i < length; i++) {
        bool separator = text[i] == '.' || text[i] == '_' || text[i] == '-';
        bool repeated = i > 0 && (text[i] == '_' || text[i] == '-') && text[i] == text[i - 1];
        if (separator ? after_separator && !repeated : !is_letter_or_digit(text[i]))
            return false;
        after_separator = separator;
    }
    return !after_separator && length > 0 && is_letter_or_digit(text[0]);
}

static bool is_path(const char *path)
{
    for (;;) {
        size_t length = strcspn(path, "/");
        if (!is_component(path, length))
            return false;
        if (!path[length])
            return true;
        path += length + 1;
    }
}

static bool is_tag(const char *tag)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strlen(tag);
    return length > 0 && length <= TAG_MAX && tag[0] != '.' && tag[0] != '-' &&
           strspn(tag, allowed) == length;
}

static bool is_port(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 5 && strspn(text, "0123456789") == length;
}

/* "host", "host:5000", "[::1]:5000"; in lower case. */
static bool is_registry(const char *text)
{
    const char *rest = text;
    if (text[0] == '[') {
        size_t length = strspn(text + 1, "0123456789abcdef:.");
        if (length < 2 || text[1 + length] != ']')
            return false;
        rest = text + length + 2;
    } else {
        size_t length = strcspn(text, ":");
        if (!is_component(text, length) || memchr(text, '_', length))
            return false;
        rest = text + length;
    }
    return !*rest || (*rest == ':' && is_port(rest + 1));
}

static bool looks_like_registry(const char *first)
{
    return strpbrk(first, ".:[") || strcmp(first, "localhost") == 0;
}

static const char *default_registry(void)
{
    const char *wanted = getenv("OCI_REGISTRY_DOMAIN");
    return wanted && *wanted ? wanted : DOCKER_HUB;
}

/* Cuts the digest and the tag off; what is left is the registry and the repository. */
static bool cut_version(char *text, char **tag, char **digest)
{
    *digest = strchr(text, '@');
    if (*digest)
        *(*digest)++ = '\0';
    char *slash = strrchr(text, '/');
    *tag = strchr(slash ? slash : text, ':');
    if (*tag)
        *(*tag)++ = '\0';
    return (!*digest || digest_is_valid(*digest)) && (!*tag || is_tag(*tag));
}

static char *find_ours(const char *name, const char *tag, const char *digest)
{
    if (digest || (tag && strcmp(tag, DEFAULT_TAG) != 0))
        return NULL;
    cleanup_free char *ours =
        strchr(name, '/') ? xstrdup(name) : xasprintf(OUR_NAMESPACE "/%s", name);
    return recipe_exists(ours) ? steal_pointer(&ours) : NULL;
}

static bool is_docker_hub(const char *registry)
{
    return strcmp(registry, DOCKER_HUB) == 0 || strcmp(registry, "index.docker.io") == 0 ||
           strcmp(registry, "registry-1.docker.io") == 0;
}

/* NULL for what is no name. */
static char *complete(char *text)
{
    char *tag, *digest;
    if (!cut_version(text, &tag, &digest))
        return NULL;
    char *ours = find_ours(text, tag, digest);
    if (ours)
        return ours;
    const char *registry = default_registry(), *path = text;
    char *slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    bool given = slash && looks_like_registry(text);
    if (given) {
        registry = text;
        path = slash + 1;
    } else if (slash) {
        *slash = '/';
    }
    if (is_docker_hub(registry))
        registry = DOCKER_HUB;
    bool short_name = !strchr(path, '/') && (!given || strcmp(registry, DOCKER_HUB) == 0);
    if (!is_registry(registry) || !is_path(path))
        return NULL;
    return xasprintf("%s/%s%s%c%s", registry, short_name ? DEFAULT_NAMESPACE "/" : "", path,
                     digest ? '@' : ':', digest ? digest : (tag ? tag : DEFAULT_TAG));
}

/* Tells the usual mistakes apart from the rest. */
static int refuse(const char *text, struct error *err)
{
    const char *registry = default_registry();
    const char *last = strrchr(text, '/') ? strrchr(text, '/') : text;
    size_t name_length = (size_t)(last - text) + strcspn(last, ":@");
    error_set(err, ERROR_INVALID, "this is not the name of an image: %.100s", text);
    if (!is_registry(registry))
        return error_hint(err,
                          "OCI_REGISTRY_DOMAIN is no registry: %.100s; one looks like "
                          "registry.example or localhost:5000",
                          registry);
    if (strcspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < name_length)
        return error_hint(err, "names have no capital letters; only tags may");
    if (strstr(text, "://"))
        return error_hint(err, "leave out what stands before the registry: %.*s",
                          (int)(strstr(text, "://") + 3 - text), text);
    return error_hint(err, "a name looks like python, alpine:3.20 or "
                           "registry.example:5000/team/tool:1.2");
}

int reference_normalize(const char *text, char **reference, struct error *err)
{
    cleanup_free char *copy = strlen(text) <= REFERENCE_MAX ? xstrdup(text) : NULL;
    cleanup_free char *full = copy ? complete(copy) : NULL;
    if (!full || strlen(full) > REFERENCE_MAX)
        return refuse(text, err);
    *reference = steal_pointer(&full);
    return 0;
}

struct reference reference_split(const char *full)
{
    const char *slash = strchr(full, '/');
    const char *at = strchr(slash, '@');
    const char *end = at ? at : strrchr(slash, ':');
    return (struct reference){.registry = xstrndup(full, (size_t)(slash - full)),
                              .repository = xstrndup(slash + 1, (size_t)(end - slash - 1)),
                              .version = xstrdup(end + 1)};
}

void reference_release(struct reference *reference)
{
    free(reference->registry);
    free(reference->repository);
    free(reference->version);
    *reference = (struct reference){0};
}
