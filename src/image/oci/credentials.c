#include "image/oci/credentials.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/process.h"

#define FILE_LIMIT ((size_t)1 << 20)
#define HELPER_NAME_MAX 100
#define DOCKER_HUB_KEY "https://index.docker.io/v1/"

static char *encode_base64(const char *text)
{
    size_t length = strlen(text);
    char *out = xmalloc(length * 4 / 3 + 8);
    EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)text, (int)length);
    return out;
}

/* NULL for what is no base64. */
static char *decode_base64(const char *text)
{
    size_t length = strlen(text);
    cleanup_free char *out = xcalloc(1, length + 4);
    if (length > FILE_LIMIT ||
        EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)length) < 0)
        return NULL;
    return steal_pointer(&out);
}

char *credentials_header(const struct credentials *credentials)
{
    cleanup_free char *pair = xasprintf("%s:%s", credentials->user, credentials->password);
    cleanup_free char *encoded = encode_base64(pair);
    return xasprintf("Basic %s", encoded);
}

void credentials_release(struct credentials *credentials)
{
    free(credentials->user);
    free(credentials->password);
    *credentials = (struct credentials){0};
}

/* An empty object when there is no such file. */
static json_t *load_file(const char *path, struct error *err)
{
    cleanup_buf struct buf text = {0};
    if (!path || !file_exists(path))
        return json_object();
    if (file_read(path, FILE_LIMIT, &text, err) < 0)
        return NULL;
    json_error_t place;
    json_t *root = json_loadb((const char *)buf_data(&text), buf_length(&text), 0, &place);
    if (!json_is_object(root)) {
        json_decref(root);
        error_set(err, ERROR_INVALID, "%s is damaged: line %d: %s", path, place.line, place.text);
        error_hint(err, "repair or remove it, then log in again");
        return NULL;
    }
    return root;
}

static const char *docker_key(const char *registry)
{
    return strcmp(registry, "docker.io") == 0 ? DOCKER_HUB_KEY : registry;
}

static void take_pair(const json_t *entry, struct credentials *credentials)
{
    const char *auth = json_string_value(json_object_get(entry, "auth"));
    cleanup_free char *pair = auth ? decode_base64(auth) : NULL;
    char *colon = pair ? strchr(pair, ':') : NULL;
    if (!colon)
        return;
    *colon = '\0';
    credentials->user = xstrdup(pair);
    credentials->password = xstrdup(colon + 1);
}

static const json_t *find_entry(const json_t *root, const char *registry)
{
    const json_t *auths = json_object_get(root, "auths");
    const json_t *entry = json_object_get(auths, docker_key(registry));
    cleanup_free char *with_scheme = xasprintf("https://%s", registry);
    if (!entry)
        entry = json_object_get(auths, registry);
    return entry ? entry : json_object_get(auths, with_scheme);
}

/* Of a helper, which is a program that will run: "docker-credential-" and this. */
static bool is_helper_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strlen(name);
    return length > 0 && length <= HELPER_NAME_MAX && strspn(name, allowed) == length;
}

static void take_answer(const struct buf *output, struct credentials *credentials)
{
    json_t *answer = json_loadb((const char *)buf_data(output), buf_length(output), 0, NULL);
    const char *user = json_string_value(json_object_get(answer, "Username"));
    const char *password = json_string_value(json_object_get(answer, "Secret"));
    if (user && password && strcmp(user, "<token>") != 0)
        *credentials = (struct credentials){xstrdup(user), xstrdup(password)};
    json_decref(answer);
}

/* A helper that has nothing fails, which is no failure of ours. */
static int ask_helper(const json_t *root, const char *registry, struct credentials *credentials,
                      struct error *err)
{
    const char *key = docker_key(registry);
    const json_t *own = json_object_get(json_object_get(root, "credHelpers"), registry);
    const char *name = json_string_value(own ? own : json_object_get(root, "credsStore"));
    if (!name || !*name)
        return 0;
    if (!is_helper_name(name)) {
        error_set(err, ERROR_INVALID,
                  "docker's config.json names a credential helper that cannot be");
        return error_hint(err, "correct credsStore and credHelpers there");
    }
    cleanup_free char *program = xasprintf("docker-credential-%s", name);
    cleanup_buf struct buf output = {0};
    struct error ignored;
    char *argv[] = {program, "get", NULL};
    struct process_options options = {.output = &output, .input = key, .input_length = strlen(key)};
    if (process_run(argv, &options, &ignored) == 0)
        take_answer(&output, credentials);
    return 0;
}

static char *docker_file(void)
{
    const char *folder = getenv("DOCKER_CONFIG");
    const char *home = getenv("HOME");
    if (folder && *folder)
        return xasprintf("%s/config.json", folder);
    return home ? xasprintf("%s/.docker/config.json", home) : NULL;
}

int credentials_find(const char *registry, struct credentials *credentials, struct error *err)
{
    *credentials = (struct credentials){0};
    cleanup_free char *ours = home_path("credentials.json");
    cleanup_free char *dockers = docker_file();
    json_auto_t *own = load_file(ours, err);
    if (!own)
        return -1;
    take_pair(find_entry(own, registry), credentials);
    if (credentials->user)
        return 0;
    json_auto_t *root = load_file(dockers, err);
    if (!root)
        return -1;
    take_pair(find_entry(root, registry), credentials);
    return credentials->user ? 0 : ask_helper(root, registry, credentials, err);
}

static int change(const char *registry, json_t *entry, struct error *err)
{
    cleanup_free char *path = home_path("credentials.json");
    cleanup_free char *text = NULL;
    json_t *root = load_file(path, err);
    if (!root)
        return -1;
    json_t *auths = json_object_get(root, "auths");
    if (!json_is_object(auths)) {
        auths = json_object();
        json_object_set_new(root, "auths", auths);
    }
    int result = 0;
    if (entry)
        json_object_set(auths, registry, entry);
    else if (json_object_del(auths, registry) < 0)
        result = error_set(err, ERROR_NOT_FOUND, "there are no credentials for %s", registry);
    if (result == 0) {
        text = json_dumps(root, JSON_INDENT(2));
        result = folder_make(home_folder(), 0755, err);
    }
    if (result == 0)
        result = file_write_atomic(path, text, strlen(text), 0600, err);
    json_decref(root);
    return result;
}

int credentials_save(const char *registry, const struct credentials *credentials, struct error *err)
{
    cleanup_free char *pair = xasprintf("%s:%s", credentials->user, credentials->password);
    cleanup_free char *encoded = encode_base64(pair);
    json_t *entry = json_pack("{s:s}", "auth", encoded);
    int result = change(registry, entry, err);
    json_decref(entry);
    return result;
}

int credentials_forget(const char *registry, struct error *err)
{
    return change(registry, NULL, err);
}
