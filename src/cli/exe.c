#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cli/attach.h"
#include "cli/command.h"
#include "cli/request.h"
#include "engine/engine.h"
#include "image/image.h"
#include "sandbox/config.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

static struct {
    unsigned cpus, memory, disk, files, processes, open_files, cpu_limit;
    char **env, **volumes, **ports;
    const char *network, *name, *namespace, *workdir, *kernel, *accelerator, *engine;
    uint64_t idle, lifetime;
    bool detach, keep, fresh, quiet, verbose, timing;
    struct work_options work;
} options = {
    .cpus = SANDBOX_DEFAULT_CPUS,
    .memory = SANDBOX_DEFAULT_MEMORY_MB,
    .disk = SANDBOX_DEFAULT_DISK_MB,
    .processes = SANDBOX_DEFAULT_PROCESSES,
    .open_files = SANDBOX_DEFAULT_OPEN_FILES,
};

static int fill_config(struct sandbox_config *config, struct error *err)
{
    const char *kernel = options.kernel ? options.kernel : getenv("MSB_KERNEL");
    config->cpus = options.cpus;
    config->memory_mb = options.memory;
    config->disk_mb = options.disk;
    config->files = options.files;
    config->processes = options.processes;
    config->open_files = options.open_files;
    config->cpu_limit = options.cpu_limit;
    if (options.work.output_limit)
        config->output_limit = options.work.output_limit;
    if (options.namespace) {
        free(config->namespace);
        config->namespace = xstrdup(options.namespace);
    }
    sandbox_config_choose_engine(config, options.engine);
    if (kernel && kernel[0])
        config->kernel = xstrdup(kernel);
    if (options.accelerator)
        config->accelerator = xstrdup(options.accelerator);
    if (options.workdir)
        config->workdir = xstrdup(options.workdir);
    config->idle_ms = options.idle;
    config->lifetime_ms = options.lifetime;
    config->attached = !options.detach;
    config->keep = options.keep;
    config->fresh = options.fresh;
    if (options.keep && !options.name) {
        error_set(err, ERROR_INVALID, "files are kept under a name");
        return error_hint(err, "add --name NAME");
    }

    unsigned random = 0;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (unsigned)getpid();
    config->name = options.name ? xstrdup(options.name) : xasprintf("exe-%08x", random);

    cleanup_free char *here = getcwd(NULL, 0);
    int result = 0;
    for (size_t i = 0; result == 0 && options.env && options.env[i]; i++)
        result = sandbox_config_add_env(config, options.env[i], err);
    for (size_t i = 0; result == 0 && options.volumes && options.volumes[i]; i++)
        result = sandbox_config_add_volume(config, options.volumes[i], here ? here : "/", err);
    for (size_t i = 0; result == 0 && options.ports && options.ports[i]; i++)
        result = sandbox_config_add_port(config, options.ports[i], err);
    if (result == 0 && options.network)
        result = sandbox_config_set_egress(config, options.network, err);
    return result < 0 ? result : sandbox_config_check(config, err);
}

/* Image, kernel and template, whichever is missing. */
static int prepare(struct sandbox_config *config, const char *reference, struct image *image,
                   struct error *err)
{
    int result = image_ensure(reference, image, err);
    if (result < 0)
        return result;
    launch_apply_image(config, image);
    return launch_prepare(config, err);
}

static void tell_weaknesses(const char *name)
{
    const struct engine *engine = engine_find(name);
    cleanup_free char *text = engine->weaknesses ? engine->weaknesses() : NULL;
    if (text)
        fprintf(stderr, "Less of a wall than root gets: %s.\n", text);
}

/* A script of an image is a program that it brings; "start" is its own command. For strv_free. */
static char **choose_command(const struct image *image, const char *script, char *const *arguments)
{
    char **command = NULL;
    if (script && strcmp(script, "start") == 0)
        strv_append_all(&command, image->command);
    else if (script)
        strv_append(&command, xstrdup(script));
    strv_append_all(&command, arguments);
    return command;
}

static int run_in(const struct sandbox_config *config, const struct image *image,
                  char *const *command, struct timing *timing)
{
    struct error err;
    struct work work;
    if (work_build(&work, &options.work, command, image->command, config->language, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (options.verbose)
        tell_weaknesses(config->engine);
    state_sweep();
    timing_step(timing, "leftovers");
    int connection = launch_keeper(config, NULL, &err);
    timing_step(timing, "keeper");
    int result = connection < 0 ? report_error(&err, EXIT_SANDBOX) : 0;
    if (connection >= 0) {
        work.attach.starting = true;
        work.attach.stop_afterwards = !options.detach;
        work.attach.await_removal = options.name != NULL;
        work.attach.verbose = options.verbose;
        work.attach.timing = options.timing ? timing : NULL;
        result = attach_run(connection, &work.attach);
    }
    work_free(&work);
    return result;
}

static int check_words(const struct arguments *arguments, struct error *err)
{
    if (arguments->count != 1) {
        error_set(err, ERROR_INVALID,
                  arguments->count ? "msb exe takes one image" : "which image is to run?");
        return error_hint(err, "msb exe microsandbox/python -- COMMAND…");
    }
    const char *tilde = strrchr(arguments->words[0], '~');
    if (tilde && !tilde[1]) {
        error_set(err, ERROR_INVALID, "which script of the image is to run?");
        return error_hint(err, "msb exe IMAGE~SCRIPT, or no ~ for the image's own command");
    }
    return 0;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (check_words(arguments, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    cleanup_free char *reference = xstrdup(arguments->words[0]);
    char *script = strrchr(reference, '~');
    if (script)
        *script++ = '\0';
    if (options.quiet)
        progress_silence();
    cancel_install();
    struct image image = {0};
    struct sandbox_config config;
    struct timing timing;
    timing_begin(&timing);
    sandbox_config_init(&config);
    int result = fill_config(&config, &err);
    if (result < 0)
        result = report_error(&err, EXIT_USAGE);
    else if (prepare(&config, reference, &image, &err) < 0)
        result = report_error(&err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
    timing_step(&timing, "image and template");
    cleanup_strv char **command =
        result == 0 ? choose_command(&image, script, arguments->command) : NULL;
    if (result == 0)
        result = run_in(&config, &image, command, &timing);
    image_release(&image);
    sandbox_config_free(&config);
    strv_free(options.env);
    strv_free(options.volumes);
    strv_free(options.ports);
    return result;
}

static const struct option option_table[] = {
    {'c', "code", OPTION_TEXT, &options.work.code, "CODE",
     "run CODE in the image's warm interpreter; - reads it from stdin"},
    {'m', "memory", OPTION_MEGABYTE, &options.memory, "MB", "memory of the machine (1024)"},
    {0, "cpus", OPTION_COUNT, &options.cpus, "N", "processors of the machine (1)"},
    {0, "disk", OPTION_MEGABYTE, &options.disk, "MB", "how much may be written inside (8192)"},
    {0, "files", OPTION_COUNT, &options.files, "N", "how many files (one for each 16 KB of disk)"},
    {0, "processes", OPTION_COUNT, &options.processes, "N",
     "how many processes and threads at once (1024)"},
    {0, "open-files", OPTION_COUNT, &options.open_files, "N",
     "how many files a process may have open (65536)"},
    {0, "cpu-limit", OPTION_COUNT, &options.cpu_limit, "PERCENT",
     "of one processor of the host (what the CPUs can use)"},
    {0, "output-limit", OPTION_BYTES, &options.work.output_limit, "BYTES",
     "show so much of the output; the rest is thrown away (all is shown)"},
    {'e', "env", OPTION_LIST, &options.env, "K=V", "an environment variable; K alone passes yours"},
    {'v', "volume", OPTION_LIST, &options.volumes, "HOST:GUEST",
     "share a folder; :ro behind it for read-only; may be repeated"},
    {'p', "port", OPTION_LIST, &options.ports, "[ADDR:]HOST:GUEST",
     "lead a port of the host to one inside; HOST 0: any free one; may be repeated"},
    {0, "network", OPTION_TEXT, &options.network, "WHERE",
     "where the inside may connect to: none, public, or names such as example.com (none)"},
    {'w', "workdir", OPTION_TEXT, &options.workdir, "DIR", "where the command starts"},
    {'u', "user", OPTION_TEXT, &options.work.user, "USER", "who runs the command"},
    {'t', "timeout", OPTION_SECONDS, &options.work.timeout_ms, "S",
     "end the command and all it started after S seconds"},
    {'n', "name", OPTION_TEXT, &options.name, "NAME", "name of the sandbox (exe-…)"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "its namespace (default)"},
    {'d', "detach", OPTION_FLAG, &options.detach, NULL,
     "keep the sandbox when the command is over; needs msb stop"},
    {'k', "keep", OPTION_FLAG, &options.keep, NULL,
     "keep the files for the next sandbox of this name with --keep"},
    {0, "fresh", OPTION_FLAG, &options.fresh, NULL, "throw away files that were kept before"},
    {0, "idle", OPTION_SECONDS, &options.idle, "S",
     "end the sandbox after S seconds without a call"},
    {0, "lifetime", OPTION_SECONDS, &options.lifetime, "S", "end the sandbox after S seconds"},
    {'T', "no-tty", OPTION_FLAG, &options.work.no_terminal, NULL,
     "no terminal inside, even if there is one here"},
    {0, "engine", OPTION_TEXT, &options.engine, "NAME",
     "what isolates it: vm or jail (vm; MSB_ENGINE)"},
    {0, "kernel", OPTION_TEXT, &options.kernel, "FILE",
     "another kernel than Debian's (MSB_KERNEL)"},
    {0, "accel", OPTION_TEXT, &options.accelerator, "NAME", "kvm or tcg (the best that works)"},
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "show no progress"},
    {0, "json", OPTION_FLAG, &options.work.json, NULL,
     "print the whole answer as JSON: output, results, error, verdict"},
    {0, "verbose", OPTION_FLAG, &options.verbose, NULL, "tell where it ran and how long it took"},
    {0, "timing", OPTION_FLAG, &options.timing, NULL, "tell where the time went, in microseconds"},
    {0},
};

const struct command exe_command = {
    .name = "exe",
    .alias = "x",
    .summary = "run a command or code in a fresh sandbox",
    .usage = "exe IMAGE[~SCRIPT] [OPTIONS] [-- COMMAND…]",
    .argument = ARGUMENT_IMAGE,
    .description =
        "Starts a sandbox from IMAGE (python and node are built here; any other, such as\n"
        "alpine:3.20, comes from its registry), runs COMMAND in it and removes it again. The "
        "sandbox is a machine with a\n"
        "kernel of its own; of the host it sees only the folders given with --volume. With\n"
        "--engine jail (needs root) it shares the host's kernel instead: native speed on hosts\n"
        "without hardware virtualisation, behind a thinner wall.\n"
        "\n"
        "It has no network but what is opened: --port leads connections in (to 127.0.0.1 unless\n"
        "ADDR says otherwise), --network lets programs inside out through a proxy that http_proxy\n"
        "and https_proxy name. WHERE is public, or a list with commas between of example.com,\n"
        "*.example.com, example.com:443, 10.1.2.3:8080, localhost:8000. Private addresses and the\n"
        "host itself are reached only when they are named with their port.\n"
        "\n"
        "stdin, stdout and stderr are passed through, and so is the exit code. When stdin and\n"
        "stdout are terminals, the command gets a terminal of its own. Without COMMAND the\n"
        "image's own starts. With ~SCRIPT the program SCRIPT of the image starts, or the image's\n"
        "own for ~start, and what is behind -- are its arguments. The first run of an image "
        "builds\n"
        "or pulls it; later runs clone a machine that is warm already.\n"
        "\n"
        "Exit codes: the command's own; 128+N when signal N ended it; 124 when its time was over;\n"
        "125 when the sandbox failed; 126 or 127 when the command could not be started or found.",
    .examples = "  msb exe python -c 'print(6*7)'\n"
                "  msb exe python -- python3 -V\n"
                "  msb exe python                                 an interactive Python\n"
                "  msb exe python~pip -- list                     a program of the image\n"
                "  msb exe alpine:3.20 -- sh                      an image from a registry\n"
                "  msb exe node --memory 2G --cpus 2 -- npm --version\n"
                "  msb exe python -v ./data:/data:ro -- ls -l /data\n"
                "  msb exe python -p 8080:8000 -- python3 -m http.server 8000\n"
                "  msb exe python --network pypi.org,files.pythonhosted.org -- pip install rich\n"
                "  echo 'import sys; print(sys.version)' | msb exe python -c -\n",
    .options = option_table,
    .run = run,
};
