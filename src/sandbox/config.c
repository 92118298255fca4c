#include "sandbox/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define NAME_MAX_LENGTH 63
/* A file takes a block of 4 KB at least. */
#define FILES_PER_MB 256
#define VOLUMES_MAX 32

void sandbox_config_init(struct sandbox_config *config)
{
    *config = (struct sandbox_config){
        .namespace = xstrdup(SANDBOX_DEFAULT_NAMESPACE),
        .engine = xstrdup(SANDBOX_DEFAULT_ENGINE),
        .cpus = SANDBOX_DEFAULT_CPUS,
        .memory_mb = SANDBOX_DEFAULT_MEMORY_MB,
        .disk_mb = SANDBOX_DEFAULT_DISK_MB,
        .processes = SANDBOX_DEFAULT_PROCESSES,
        .open_files = SANDBOX_DEFAULT_OPEN_FILES,
        .output_limit = SANDBOX_DEFAULT_OUTPUT_LIMIT,
    };
}

/* The text members, by their names in JSON. */
static const struct {
    const char *key;
    size_t offset;
} texts[] = {
    {"namespace", offsetof(struct sandbox_config, namespace)},
    {"name", offsetof(struct sandbox_config, name)},
    {"engine", offsetof(struct sandbox_config, engine)},
    {"image", offsetof(struct sandbox_config, image)},
    {"image_digest", offsetof(struct sandbox_config, image_digest)},
    {"image_path", offsetof(struct sandbox_config, image_path)},
    {"language", offsetof(struct sandbox_config, language)},
    {"user", offsetof(struct sandbox_config, user)},
    {"kernel", offsetof(struct sandbox_config, kernel)},
    {"accelerator", offsetof(struct sandbox_config, accelerator)},
    {"workdir", offsetof(struct sandbox_config, workdir)},
    {"fork_of", offsetof(struct sandbox_config, fork_of)},
    {"snapshot", offsetof(struct sandbox_config, snapshot)},
    {"image_user", offsetof(struct sandbox_config, image_user)},
    {"image_workdir", offsetof(struct sandbox_config, image_workdir)},
    {"log_folder", offsetof(struct sandbox_config, log_folder)},
    {"fingerprint", offsetof(struct sandbox_config, fingerprint)},
};
#define TEXTS (sizeof texts / sizeof texts[0])

/* The whole-number members: how JSON and messages call them, and what they may be. */
static const struct {
    const char *key, *what, *unit;
    size_t offset;
    uint64_t low, high; /* 0: see highest */
    bool optional;      /* 0 is possible as well */
} numbers[] = {
    {"cpus", "a number of CPUs", "", offsetof(struct sandbox_config, cpus), 1, 64, false},
    {"memory_mb", "memory", " MB", offsetof(struct sandbox_config, memory_mb), 256, 0, false},
    {"disk_mb", "a disk", " MB", offsetof(struct sandbox_config, disk_mb), 64, 1u << 20, false},
    {"files", "a disk", " files", offsetof(struct sandbox_config, files), 1024, 0, true},
    {"processes", "a limit", " processes", offsetof(struct sandbox_config, processes), 16, 32768,
     false},
    {"open_files", "a limit", " open files", offsetof(struct sandbox_config, open_files), 256,
     1000000, false},
    {"cpu_limit", "a limit", "% of a processor", offsetof(struct sandbox_config, cpu_limit), 5,
     6400, true},
};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

static unsigned *number_at(struct sandbox_config *config, size_t i)
{
    return (unsigned *)((char *)config + numbers[i].offset);
}

static unsigned number_of(const struct sandbox_config *config, size_t i)
{
    return *number_at((struct sandbox_config *)(uintptr_t)config, i);
}

static char **text_at(struct sandbox_config *config, size_t i)
{
    return (char **)((char *)config + texts[i].offset);
}

void sandbox_config_free(struct sandbox_config *config)
{
    for (size_t i = 0; i < TEXTS; i++)
        free(*text_at(config, i));
    strv_free(config->start);
    strv_free(config->peers);
    strv_free(config->image_env);
    strv_free(config->env);
    for (size_t i = 0; i < config->volume_count; i++) {
        free(config->volumes[i].host);
        free(config->volumes[i].guest);
    }
    free(config->volumes);
    sandbox_config_free_network(config);
    *config = (struct sandbox_config){0};
}

int sandbox_check_name(const char *what, const char *name, struct error *err)
{
    size_t length = strlen(name);
    bool good = length > 0 && length <= NAME_MAX_LENGTH;
    for (size_t i = 0; good && i < length; i++) {
        bool inner = i > 0 && strchr("._-", name[i]);
        good = isalnum((unsigned char)name[i]) || inner;
    }
    if (good)
        return 0;
    error_set(err, ERROR_INVALID, "the %s \"%.80s\" cannot be used", what, name);
    return error_hint(err, "a %s has 1 to %d letters, digits, and . _ - after the first", what,
                      NAME_MAX_LENGTH);
}

static uint64_t host_memory_mb(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
}

static uint64_t highest(const struct sandbox_config *config, size_t i)
{
    if (numbers[i].offset == offsetof(struct sandbox_config, memory_mb))
        return host_memory_mb();
    if (numbers[i].offset == offsetof(struct sandbox_config, files))
        return (uint64_t)config->disk_mb * FILES_PER_MB;
    return numbers[i].high;
}

static int check_number(const struct sandbox_config *config, size_t i, struct error *err)
{
    uint64_t value = number_of(config, i), low = numbers[i].low, high = highest(config, i);
    if ((value >= low && value <= high) || (value == 0 && numbers[i].optional))
        return 0;
    error_set(err, ERROR_INVALID, "%s of %" PRIu64 "%s is not possible", numbers[i].what, value,
              numbers[i].unit);
    return error_hint(err, "%s can be %" PRIu64 " to %" PRIu64, numbers[i].key, low, high);
}

static int check_volume(const struct sandbox_volume *volume, struct error *err)
{
    struct stat status;
    if (stat(volume->host, &status) < 0) {
        error_errno(err, errno, "the folder %s cannot be shared", volume->host);
        return error_hint(err, "create it first, or correct the path");
    }
    if (!S_ISDIR(status.st_mode))
        return error_set(err, ERROR_INVALID, "%s is not a folder; only folders can be shared",
                         volume->host);
    return 0;
}

int sandbox_config_check(const struct sandbox_config *config, struct error *err)
{
    if (!engine_find(config->engine)) {
        error_set(err, ERROR_INVALID, "there is no engine \"%.40s\"", config->engine);
        return error_hint(err, "use vm or jail");
    }
    int result = sandbox_check_name("namespace", config->namespace, err);
    if (result == 0)
        result = sandbox_check_name("sandbox name", config->name, err);
    for (size_t i = 0; result == 0 && i < NUMBERS; i++)
        result = check_number(config, i, err);
    for (size_t i = 0; result == 0 && i < config->volume_count; i++)
        result = check_volume(&config->volumes[i], err);
    return result;
}

/* Absolute, not the root itself, and plain: no component that is empty, "." or "..". */
static int check_guest_path(const char *path, struct error *err)
{
    bool good = path[0] == '/' && strlen(path) < PATH_MAX && !strchr(path, ':');
    for (const char *at = path; good && *at == '/'; at += strcspn(at, "/")) {
        at++;
        size_t length = strcspn(at, "/");
        good = length > 0 && strncmp(at, ".", length) != 0 && strncmp(at, "..", length) != 0;
    }
    if (good)
        return 0;
    error_set(err, ERROR_INVALID, "\"%.200s\" is no place for a folder in the sandbox", path);
    return error_hint(err, "use a plain absolute path such as /data, with :ro behind it for "
                           "read-only");
}

int sandbox_config_add_volume(struct sandbox_config *config, const char *text, const char *base,
                              struct error *err)
{
    if (config->volume_count >= VOLUMES_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d folders can be shared", VOLUMES_MAX);
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || colon[1] == '\0') {
        error_set(err, ERROR_INVALID, "the volume \"%.200s\" cannot be understood", text);
        return error_hint(err, "write HOST-FOLDER:GUEST-FOLDER, with :ro behind it for read-only");
    }
    cleanup_free char *guest = xstrdup(colon + 1);
    bool read_only = false;
    char *mode = strrchr(guest, ':');
    if (mode && (strcmp(mode, ":ro") == 0 || strcmp(mode, ":rw") == 0)) {
        read_only = strcmp(mode, ":ro") == 0;
        *mode = '\0';
    }
    size_t length = strlen(guest);
    if (length > 1 && guest[length - 1] == '/')
        guest[length - 1] = '\0';
    int result = check_guest_path(guest, err);
    if (result < 0)
        return result;
    cleanup_free char *given = xstrndup(text, (size_t)(colon - text));
    cleanup_free char *joined = given[0] == '/' ? xstrdup(given) : xasprintf("%s/%s", base, given);
    cleanup_free char *host = realpath(joined, NULL);
    struct sandbox_volume volume = {
        .host = host ? host : joined, .guest = guest, .read_only = read_only};
    result = check_volume(&volume, err);
    if (result < 0)
        return result;
    volume.host = xstrdup(volume.host);
    volume.guest = xstrdup(guest);
    config->volumes =
        xrealloc(config->volumes, (config->volume_count + 1) * sizeof *config->volumes);
    config->volumes[config->volume_count++] = volume;
    return 0;
}

void sandbox_config_choose_engine(struct sandbox_config *config, const char *name)
{
    const char *chosen = name ? name : getenv("MSB_ENGINE");
    if (!chosen || !chosen[0])
        return;
    free(config->engine);
    config->engine = xstrdup(chosen);
}

int sandbox_config_add_env(struct sandbox_config *config, const char *text, struct error *err)
{
    size_t length = strcspn(text, "=");
    bool good = length > 0 && !isdigit((unsigned char)text[0]);
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)text[i]) || text[i] == '_';
    if (!good) {
        error_set(err, ERROR_INVALID, "\"%.100s\" is no environment variable", text);
        return error_hint(err, "write NAME=value, or NAME alone to pass on your own value");
    }
    if (text[length] == '=') {
        strv_append(&config->env, xstrdup(text));
        return 0;
    }
    const char *value = getenv(text);
    if (value)
        strv_append(&config->env, xasprintf("%s=%s", text, value));
    return 0;
}

struct machine_spec sandbox_config_machine(const struct sandbox_config *config)
{
    return (struct machine_spec){
        .image_path = config->image_path,
        .image_digest = config->image_digest,
        .language = config->language,
        .user = config->image_user,
        .workdir = config->image_workdir,
        .env = config->image_env,
        .kernel = config->kernel,
        .accelerator = config->accelerator,
        .cpus = config->cpus,
        .memory_mb = config->memory_mb,
        .disk_mb = config->disk_mb,
        .files = config->files,
        .processes = config->processes,
        .open_files = config->open_files,
        .cpu_percent = config->cpu_limit,
    };
}

static json_t *volumes_to_json(const struct sandbox_config *config)
{
    json_t *list = json_array();
    for (size_t i = 0; i < config->volume_count; i++) {
        const struct sandbox_volume *volume = &config->volumes[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "host", volume->host, "guest",
                                              volume->guest, "read_only", volume->read_only));
    }
    return list;
}

static json_t *list_to_json(char *const *list)
{
    json_t *json = json_array();
    for (size_t i = 0; list && list[i]; i++)
        json_array_append_new(json, json_string(list[i]));
    return json;
}

static char **list_from_json(const json_t *json)
{
    char **list = NULL;
    for (size_t i = 0; i < json_array_size(json); i++) {
        const char *text = json_string_value(json_array_get(json, i));
        if (text)
            strv_append(&list, xstrdup(text));
    }
    return list;
}

json_t *sandbox_config_to_json(const struct sandbox_config *config)
{
    json_t *json =
        json_pack("{s:I, s:I, s:I, s:b, s:b, s:b, s:o}", "output_limit",
                  (json_int_t)config->output_limit, "idle_ms", (json_int_t)config->idle_ms,
                  "lifetime_ms", (json_int_t)config->lifetime_ms, "attached", config->attached,
                  "keep", config->keep, "fresh", config->fresh, "volumes", volumes_to_json(config));
    for (size_t i = 0; i < NUMBERS; i++)
        json_object_set_new(json, numbers[i].key, json_integer(number_of(config, i)));
    for (size_t i = 0; i < TEXTS; i++) {
        const char *text = *text_at((struct sandbox_config *)(uintptr_t)config, i);
        if (text)
            json_object_set_new(json, texts[i].key, json_string(text));
    }
    if (config->start)
        json_object_set_new(json, "start", list_to_json(config->start));
    if (config->peers)
        json_object_set_new(json, "peers", list_to_json(config->peers));
    json_object_set_new(json, "image_env", list_to_json(config->image_env));
    json_object_set_new(json, "env", list_to_json(config->env));
    sandbox_config_network_to_json(config, json);
    return json;
}

static uint64_t member_of(const json_t *json, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(json, key));
    return value > 0 ? (uint64_t)value : 0;
}

static int volumes_from_json(const json_t *list, struct sandbox_config *config, struct error *err)
{
    size_t count = json_array_size(list);
    config->volumes = xcalloc(count, sizeof *config->volumes);
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *host = json_string_value(json_object_get(entry, "host"));
        const char *guest = json_string_value(json_object_get(entry, "guest"));
        if (!host || !guest)
            return error_set(err, ERROR_INVALID, "a volume lacks host or guest");
        config->volumes[config->volume_count++] = (struct sandbox_volume){
            .host = xstrdup(host),
            .guest = xstrdup(guest),
            .read_only = json_is_true(json_object_get(entry, "read_only")),
        };
    }
    return 0;
}

int sandbox_config_from_json(const json_t *json, struct sandbox_config *config, struct error *err)
{
    *config = (struct sandbox_config){
        .output_limit = member_of(json, "output_limit"),
        .idle_ms = member_of(json, "idle_ms"),
        .lifetime_ms = member_of(json, "lifetime_ms"),
        .attached = json_is_true(json_object_get(json, "attached")),
        .keep = json_is_true(json_object_get(json, "keep")),
        .fresh = json_is_true(json_object_get(json, "fresh")),
    };
    for (size_t i = 0; i < NUMBERS; i++)
        *number_at(config, i) = (unsigned)member_of(json, numbers[i].key);
    for (size_t i = 0; i < TEXTS; i++) {
        const char *text = json_string_value(json_object_get(json, texts[i].key));
        if (text)
            *text_at(config, i) = xstrdup(text);
    }
    config->start = list_from_json(json_object_get(json, "start"));
    config->peers = list_from_json(json_object_get(json, "peers"));
    config->image_env = list_from_json(json_object_get(json, "image_env"));
    config->env = list_from_json(json_object_get(json, "env"));
    if (!config->namespace || !config->name || !config->engine || !config->image_path ||
        !config->image_digest)
        return error_set(err, ERROR_INVALID, "the sandbox's settings are incomplete");
    int result = volumes_from_json(json_object_get(json, "volumes"), config, err);
    return result < 0 ? result : sandbox_config_network_from_json(json, config, err);
}

/* Whatever is not listed here makes another machine. */
char *sandbox_config_machine_text(const struct sandbox_config *config)
{
    static const char *const given_later[] = {"user",        "workdir",  "env",          "volumes",
                                              "ports",       "egress",   "output_limit", "idle_ms",
                                              "lifetime_ms", "attached", "image",        NULL};
    const char *image_user = config->image_user ? config->image_user : "root";
    if (config->volume_count || (config->user && strcmp(config->user, image_user) != 0))
        return NULL;
    json_t *json = sandbox_config_to_json(config);
    for (size_t i = 0; given_later[i]; i++)
        json_object_del(json, given_later[i]);
    json_object_set_new(json, "namespace", json_string(""));
    json_object_set_new(json, "name", json_string(""));
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    return text;
}

bool sandbox_config_is_copy(const struct sandbox_config *config)
{
    return config->fork_of || config->snapshot;
}
