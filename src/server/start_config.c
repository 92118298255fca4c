/*
 * From the "config" of sandbox.start to the settings of a sandbox. An API client may not decide
 * what of the host its sandbox gets: folders and engines only as the server was told, ports of the
 * loopback address, and of the network only what is public.
 */
#include <string.h>

#include "base/mem.h"
#include "sandbox/egress_policy.h"
#include "server/rpc.h"

static const char *text_of(const json_t *settings, const char *key)
{
    return json_string_value(json_object_get(settings, key));
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 &&
           (path[length] == '/' || path[length] == '\0' || strcmp(folder, "/") == 0);
}

/* Whether a folder exists is nothing that clients are told. */
static int add_volume(struct sandbox_config *config, const char *text, char *const *allowed,
                      struct error *err)
{
    if (!allowed) {
        error_set(err, ERROR_DENIED, "this server shares no folders of its host");
        return error_hint(err, "use sandbox.file.write, or start it with --allow-volumes FOLDER");
    }
    bool good = text[0] == '/' && sandbox_config_add_volume(config, text, "/", err) == 0;
    bool found = false;
    for (size_t i = 0; good && allowed[i] && !found; i++)
        found = is_below(config->volumes[config->volume_count - 1].host, allowed[i]);
    if (found)
        return 0;
    error_set(err, ERROR_DENIED, "this server does not share the folder of \"%.200s\"", text);
    return error_hint(err, "write HOST:GUEST or HOST:GUEST:ro, HOST being below a folder that the "
                           "server was given with --allow-volumes");
}

static int add_port(struct sandbox_config *config, const char *text, struct error *err)
{
    const char *colon = strchr(text, ':');
    if (!colon || strchr(colon + 1, ':'))
        return error_set(err, ERROR_INVALID, "a port must be HOST:GUEST, such as 8080:80");
    return sandbox_config_add_port(config, text, err);
}

/* A name alone would take the server's own value. */
static int add_env(struct sandbox_config *config, const char *text, struct error *err)
{
    if (!strchr(text, '='))
        return error_set(err, ERROR_INVALID, "an entry of \"envs\" must be NAME=value");
    return sandbox_config_add_env(config, text, err);
}

static int fill_lists(struct sandbox_config *config, const json_t *settings, char *const *allowed,
                      struct error *err)
{
    cleanup_free char **ports = NULL, **envs = NULL, **volumes = NULL;
    if (rpc_texts(settings, "ports", &ports, err) < 0 ||
        rpc_texts(settings, "envs", &envs, err) < 0 ||
        rpc_texts(settings, "volumes", &volumes, err) < 0)
        return -1;
    int result = 0;
    for (size_t i = 0; result == 0 && envs[i]; i++)
        result = add_env(config, envs[i], err);
    for (size_t i = 0; result == 0 && ports[i]; i++)
        result = add_port(config, ports[i], err);
    for (size_t i = 0; result == 0 && volumes[i]; i++)
        result = add_volume(config, volumes[i], allowed, err);
    return result;
}

static int fill_network(struct sandbox_config *config, const char *wanted, struct error *err)
{
    struct egress_policy policy;
    if (!wanted)
        return 0;
    if (sandbox_config_set_egress(config, wanted, err) < 0)
        return -1;
    int result = egress_policy_parse(&policy, config->egress, err);
    if (result == 0)
        result = egress_policy_check_public(&policy, err);
    egress_policy_free(&policy);
    return result;
}

static bool is_in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return length > 0;
    }
    return false;
}

static int fill_engine(struct sandbox_config *config, const char *wanted, const char *engines,
                       struct error *err)
{
    free(config->engine);
    config->engine = wanted ? xstrdup(wanted) : xstrndup(engines, strcspn(engines, ","));
    if (!engine_find(config->engine) || is_in_list(engines, config->engine))
        return 0;
    error_set(err, ERROR_DENIED, "this server does not use the engine %s", config->engine);
    return error_hint(err, "it uses %s; msb server start --engine decides that", engines);
}

static int fill_numbers(struct sandbox_config *config, const json_t *settings, struct error *err)
{
    const struct {
        const char *key;
        unsigned *number;
    } numbers[] = {
        {"memory", &config->memory_mb},    {"cpus", &config->cpus},
        {"disk", &config->disk_mb},        {"cpu_limit", &config->cpu_limit},
        {"processes", &config->processes}, {"open_files", &config->open_files},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint64_t value = *numbers[i].number;
        if (rpc_member_number(settings, numbers[i].key, UINT32_MAX, &value, err) < 0)
            return -1;
        *numbers[i].number = (unsigned)value;
    }
    if (rpc_member_number(settings, "output_limit", INT64_MAX, &config->output_limit, err) < 0 ||
        rpc_member_number(settings, "idle_timeout", UINT32_MAX, &config->idle_ms, err) < 0 ||
        rpc_member_number(settings, "lifetime", UINT32_MAX, &config->lifetime_ms, err) < 0)
        return -1;
    config->idle_ms *= 1000;
    config->lifetime_ms *= 1000;
    return 0;
}

/* Everything else was settled when the snapshot was made. */
static int fill_copy(struct sandbox_config *config, const json_t *settings, struct error *err)
{
    config->snapshot = xstrdup(text_of(settings, "snapshot"));
    if (json_object_size(settings) != 1) {
        error_set(err, ERROR_INVALID, "a sandbox from a snapshot has the settings of the snapshot");
        return error_hint(err, "give \"snapshot\" alone");
    }
    return sandbox_check_name("name of a snapshot", config->snapshot, err);
}

int start_config_fill(struct sandbox_config *config, const struct rpc_call *call,
                      const json_t *settings, struct error *err)
{
    const struct server_options *options = call->server->options;
    const char *workdir = text_of(settings, "workdir"), *user = text_of(settings, "user");
    free(config->namespace);
    config->namespace = xstrdup(call->namespace);
    config->name = xstrdup(call->name);
    /* Found out when it is started. */
    config->image_path = xstrdup("");
    config->image_digest = xstrdup("");
    if (text_of(settings, "snapshot"))
        return fill_copy(config, settings, err);
    config->image = xstrdup(text_of(settings, "image"));
    config->workdir = workdir ? xstrdup(workdir) : NULL;
    config->user = user ? xstrdup(user) : NULL;
    if (fill_engine(config, text_of(settings, "engine"), options->engines, err) < 0 ||
        fill_numbers(config, settings, err) < 0 ||
        fill_network(config, text_of(settings, "network"), err) < 0 ||
        fill_lists(config, settings, options->volumes, err) < 0)
        return -1;
    return sandbox_config_check(config, err);
}
