#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/project_file.h"

static struct {
    const char *file, *image, *workdir, *shell, *user, *scope, *engine, *start;
    unsigned memory, cpus, disk;
    char **volumes, **ports, **envs, **env_files, **depends_on, **scripts;
} options;

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void add_script(struct project_sandbox *sandbox, const char *name, size_t length,
                       const char *text)
{
    sandbox->scripts =
        xrealloc(sandbox->scripts, (sandbox->script_count + 1) * sizeof *sandbox->scripts);
    sandbox->scripts[sandbox->script_count++] =
        (struct project_script){.name = xstrndup(name, length), .text = xstrdup(text)};
}

static int add_scripts(struct project_sandbox *sandbox, struct error *err)
{
    for (size_t i = 0; options.scripts && options.scripts[i]; i++) {
        const char *text = options.scripts[i], *equals = strchr(text, '=');
        if (!equals || equals == text) {
            error_set(err, ERROR_INVALID, "the script \"%.80s\" has no name", text);
            return error_hint(err, "write --script NAME='COMMANDS'");
        }
        add_script(sandbox, text, (size_t)(equals - text), equals + 1);
    }
    if (options.start)
        add_script(sandbox, "start", strlen("start"), options.start);
    return 0;
}

/* Its lists are those of the options. */
static int describe(const char *name, struct project_sandbox *sandbox, struct error *err)
{
    *sandbox = (struct project_sandbox){
        .name = xstrdup(name),
        .image = copy(options.image),
        .workdir = copy(options.workdir),
        .shell = copy(options.shell),
        .user = copy(options.user),
        .scope = copy(options.scope),
        .engine = copy(options.engine),
        .memory_mb = options.memory,
        .cpus = options.cpus,
        .disk_mb = options.disk,
        .volumes = options.volumes,
        .ports = options.ports,
        .envs = options.envs,
        .env_files = options.env_files,
        .depends_on = options.depends_on,
    };
    return add_scripts(sandbox, err);
}

static void release(struct project_sandbox *sandbox)
{
    sandbox->volumes = sandbox->ports = sandbox->envs = NULL;
    sandbox->env_files = sandbox->depends_on = NULL;
    project_free_sandbox(sandbox);
}

static int add_one(const char *file, const char *name, struct buf *text, struct error *err)
{
    struct project_sandbox sandbox;
    char *changed = NULL;
    int result = sandbox_check_name("sandbox name", name, err);
    if (result < 0)
        return result;
    result = describe(name, &sandbox, err);
    if (result == 0)
        changed = sandboxfile_with(file, buf_text(text), &sandbox, err);
    release(&sandbox);
    if (!changed)
        return -1;
    buf_consume(text, buf_length(text));
    buf_append_text(text, changed);
    free(changed);
    return 0;
}

/* The file with the new sandboxes in it must be a good one, and they must be possible here. */
static int check(const char *file, struct buf *text, const struct arguments *arguments,
                 struct error *err)
{
    struct project project;
    int result = project_parse(file, buf_text(text), &project, err);
    for (size_t i = 0; result == 0 && i < arguments->count; i++) {
        struct sandbox_config config;
        sandbox_config_init(&config);
        const struct project_sandbox *sandbox = project_sandbox(&project, arguments->words[i], err);
        result = sandbox ? project_config(&project, sandbox, &config, err) : -1;
        sandbox_config_free(&config);
    }
    project_free(&project);
    return result;
}

static int add(const struct arguments *arguments, struct error *err)
{
    cleanup_buf struct buf text = {0};
    cleanup_free char *file = project_find(options.file, err);
    int result = file ? project_read_text(file, &text, err) : -1;
    for (size_t i = 0; result == 0 && i < arguments->count; i++)
        result = add_one(file, arguments->words[i], &text, err);
    if (result == 0)
        result = check(file, &text, arguments, err);
    return result < 0 ? result : project_rewrite(file, buf_text(&text), err);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0 || !options.image) {
        error_set(&err, ERROR_INVALID,
                  arguments->count == 0 ? "how is the new sandbox to be called?"
                                        : "which image is the new sandbox to have?");
        error_hint(&err, "msb add NAME --image microsandbox/python");
        return report_error(&err, EXIT_USAGE);
    }
    int result = add(arguments, &err) < 0 ? report_error(&err, EXIT_FAILURE) : 0;
    for (size_t i = 0; result == 0 && i < arguments->count; i++)
        printf("%s\n", arguments->words[i]);
    char **const lists[] = {options.volumes,   options.ports,      options.envs,
                            options.env_files, options.depends_on, options.scripts};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        strv_free(lists[i]);
    return result;
}

static const struct option option_table[] = {
    {'i', "image", OPTION_TEXT, &options.image, "IMAGE", "what it is made of, such as python"},
    {'m', "memory", OPTION_MEGABYTE, &options.memory, "MB", "its memory (1024)"},
    {0, "cpus", OPTION_COUNT, &options.cpus, "N", "its processors (1)"},
    {0, "cpu", OPTION_COUNT, &options.cpus, "N", "the same"},
    {0, "disk", OPTION_MEGABYTE, &options.disk, "MB", "how much may be written inside (8192)"},
    {'v', "volume", OPTION_LIST, &options.volumes, "HOST:GUEST",
     "share a folder, from the project's on; :ro behind it for read-only; may be repeated"},
    {'p', "port", OPTION_LIST, &options.ports, "HOST:GUEST",
     "lead a port of the host to one inside; may be repeated"},
    {'e', "env", OPTION_LIST, &options.envs, "K=V", "an environment variable; may be repeated"},
    {0, "env-file", OPTION_LIST, &options.env_files, "FILE", "a file with lines of K=V"},
    {0, "depends-on", OPTION_LIST, &options.depends_on, "NAME",
     "start it when this one is ready; may be repeated"},
    {'w', "workdir", OPTION_TEXT, &options.workdir, "DIR", "where commands start"},
    {0, "shell", OPTION_TEXT, &options.shell, "PROGRAM", "what runs scripts (sh)"},
    {'u', "user", OPTION_TEXT, &options.user, "USER", "who runs commands"},
    {0, "script", OPTION_LIST, &options.scripts, "K=V", "the script K; may be repeated"},
    {0, "start", OPTION_TEXT, &options.start, "COMMANDS", "the script that it is started for"},
    {0, "scope", OPTION_TEXT, &options.scope, "SCOPE", "what it may connect to: none or public"},
    {0, "engine", OPTION_TEXT, &options.engine, "NAME", "what isolates it: vm or jail"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command add_command = {
    .name = "add",
    .summary = "add sandboxes to the project",
    .usage = "add NAME… --image IMAGE [OPTIONS]",
    .description =
        "Writes sandboxes into the Sandboxfile, each with the same settings. Nothing is\n"
        "started: msb up does that. The rest of the file stays as it is.",
    .examples = "  msb add db --image python --start 'python3 db.py' -v ./db:/app --workdir /app\n"
                "  msb add web --image node -p 8080:3000 --depends-on db --script test='npm t'\n",
    .options = option_table,
    .run = run,
};
