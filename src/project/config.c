/* From what the file says of a sandbox to the settings it is started with. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "image/image.h"
#include "project/project.h"
#include "sandbox/launch.h"

#define ENV_FILE_MAX (1u << 20)
#define SLUG_MAX 24

char *project_namespace(const struct project *project)
{
    char digest[65], slug[SLUG_MAX + 1];
    size_t length = 0;
    const char *name = strrchr(project->folder, '/') + 1;
    for (; *name && length < SLUG_MAX; name++) {
        if (isalnum((unsigned char)*name))
            slug[length++] = (char)tolower((unsigned char)*name);
        else if (length > 0 && slug[length - 1] != '-')
            slug[length++] = '-';
    }
    slug[length] = '\0';
    digest_bytes(project->folder, strlen(project->folder), digest);
    return xasprintf("%s%s%.8s", slug, length && slug[length - 1] != '-' ? "-" : "", digest);
}

int project_wrong(const struct project *project, const struct project_sandbox *sandbox,
                  struct error *err)
{
    return error_wrap(err, "%s:%u:%u: the sandbox %s", project->file, sandbox->line,
                      sandbox->column, sandbox->name);
}

/* "NAME=value" lines; blank ones and those that begin with # are nothing. */
static int add_env_file(const struct project *project, const char *name,
                        struct sandbox_config *config, struct error *err)
{
    cleanup_buf struct buf text = {0};
    cleanup_free char *path =
        name[0] == '/' ? xstrdup(name) : xasprintf("%s/%s", project->folder, name);
    if (file_read(path, ENV_FILE_MAX, &text, err) < 0)
        return -1;
    char *rest = (char *)(uintptr_t)buf_text(&text), *line;
    while ((line = strsep(&rest, "\n"))) {
        line += strspn(line, " \t");
        line[strcspn(line, "\r")] = '\0';
        if (!line[0] || line[0] == '#')
            continue;
        if (!strchr(line, '='))
            return error_set(err, ERROR_INVALID, "%s: \"%.80s\" is not NAME=value", path, line);
        if (sandbox_config_add_env(config, line, err) < 0)
            return error_wrap(err, "%s", path);
    }
    return 0;
}

static int add_volume(const struct project *project, const char *text,
                      struct sandbox_config *config, struct error *err)
{
    cleanup_free char *pair = strchr(text, ':') ? NULL : xasprintf("%s:%s", text, text);
    return sandbox_config_add_volume(config, pair ? pair : text, project->folder, err);
}

static int add_lists(const struct project *project, const struct project_sandbox *sandbox,
                     struct sandbox_config *config, struct error *err)
{
    int result = 0;
    for (size_t i = 0; result == 0 && sandbox->env_files && sandbox->env_files[i]; i++)
        result = add_env_file(project, sandbox->env_files[i], config, err);
    for (size_t i = 0; result == 0 && sandbox->envs && sandbox->envs[i]; i++)
        result = sandbox_config_add_env(config, sandbox->envs[i], err);
    for (size_t i = 0; result == 0 && sandbox->ports && sandbox->ports[i]; i++)
        result = project_add_port(config, sandbox->ports[i], err);
    for (size_t i = 0; result == 0 && sandbox->volumes && sandbox->volumes[i]; i++)
        result = add_volume(project, sandbox->volumes[i], config, err);
    return result;
}

static bool can_keep(const char *engine_name)
{
    const struct engine *engine = engine_find(engine_name);
    return engine && (!engine->can_keep || engine->can_keep());
}

static void set_text(char **target, const char *text)
{
    if (!text)
        return;
    free(*target);
    *target = xstrdup(text);
}

char *project_log_folder(const char *namespace, const char *name)
{
    return home_path("logs/%s/%s", namespace, name);
}

int project_config(const struct project *project, const struct project_sandbox *sandbox,
                   struct sandbox_config *config, struct error *err)
{
    bool is_open = !sandbox->scope || strcmp(sandbox->scope, "public") == 0 ||
                   strcmp(sandbox->scope, "any") == 0;
    cleanup_free char *namespace = project_namespace(project);
    set_text(&config->namespace, namespace);
    set_text(&config->name, sandbox->name);
    set_text(&config->workdir, sandbox->workdir);
    set_text(&config->user, sandbox->user);
    free(config->log_folder);
    config->log_folder = project_log_folder(namespace, sandbox->name);
    sandbox_config_choose_engine(config, sandbox->engine);
    config->keep = can_keep(config->engine);
    if (sandbox->memory_mb)
        config->memory_mb = sandbox->memory_mb;
    if (sandbox->cpus)
        config->cpus = sandbox->cpus;
    if (sandbox->disk_mb)
        config->disk_mb = sandbox->disk_mb;
    int result = add_lists(project, sandbox, config, err);
    if (result == 0)
        result = sandbox_config_set_egress(config, is_open ? "public" : "none", err);
    if (result == 0)
        result = project_add_peers(project, sandbox, config, err);
    if (result == 0)
        result = sandbox_config_check(config, err);
    return result < 0 ? project_wrong(project, sandbox, err) : 0;
}

static void set_fingerprint(struct sandbox_config *config)
{
    char digest[65];
    json_t *json = sandbox_config_to_json(config);
    cleanup_free char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    digest_bytes(text, strlen(text), digest);
    set_text(&config->fingerprint, digest);
}

int project_settings(const struct project *project, const struct project_sandbox *sandbox,
                     char **start, struct sandbox_config *config, struct error *err)
{
    struct image image = {0};
    sandbox_config_init(config);
    config->start = start;
    int result = project_config(project, sandbox, config, err);
    if (result == 0 && image_ensure(sandbox->image, &image, err) < 0)
        result = project_wrong(project, sandbox, err);
    if (result == 0) {
        launch_apply_image(config, &image);
        set_fingerprint(config);
    }
    image_release(&image);
    return result;
}
