#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/query.h"
#include "cli/table.h"
#include "sandbox/config.h"
#include "sandbox/install.h"
#include "sandbox/state.h"

#define ANSWER_MS 5000

static struct {
    const char *namespace, *language;
    uint64_t timeout_ms;
    bool json, quiet;
} options;

struct job {
    uv_loop_t loop;
    struct sandbox_client client;
    struct install install;
    uv_signal_t interrupt;
    struct error err;
};

static void on_line(struct install *install, const char *text)
{
    (void)install;
    fprintf(stderr, "  %s\n", text);
}

static void on_ended(struct install *install, const struct error *err)
{
    struct job *job = install->context;
    job->err = *err;
    client_close(&job->client);
    uv_close((uv_handle_t *)&job->interrupt, NULL);
}

static void on_interrupt(uv_signal_t *watch, int number)
{
    (void)number;
    struct job *job = watch->data;
    install_cancel(&job->install);
}

/* The language of the sandbox's image, for free(). */
static int find_language(const char *namespace, const char *name, char **language,
                         struct error *err)
{
    struct outcome outcome;
    int result = query_keeper(namespace, name, OP_STATUS, false, ANSWER_MS, &outcome, err);
    if (result < 0)
        return result;
    json_t *status = json_loads(outcome.status ? outcome.status : "{}", 0, NULL);
    const char *text = json_string_value(json_object_get(status, "language"));
    *language = text ? xstrdup(text) : NULL;
    json_decref(status);
    outcome_free(&outcome);
    if (*language)
        return 0;
    error_set(err, ERROR_INVALID, "the image of sandbox %s has no language of its own", name);
    return error_hint(err, "say which packages are meant with --language python or node");
}

static json_t *describe(const struct package *package)
{
    return json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "package", package->asked, "name",
                     package->name, "state", package_state_name(package->state), "version",
                     package->version, "message", package->message);
}

static void print_list(const struct packages *packages)
{
    json_t *list = json_array();
    for (size_t i = 0; i < packages->count; i++)
        json_array_append_new(list, describe(&packages->list[i]));
    print_json(list);
    json_decref(list);
}

static void print_table(const struct packages *packages)
{
    struct table table;
    table_begin(&table, (const char *[]){"PACKAGE", "STATE", "VERSION", "REASON", NULL});
    for (size_t i = 0; i < packages->count; i++) {
        const struct package *package = &packages->list[i];
        table_row(&table, (const char *[]){package->asked, package_state_name(package->state),
                                           package->version ? package->version : "-",
                                           package->message ? package->message : "-"});
    }
    table_print(&table);
}

/* What to do about it, in a sentence; nothing when all is well. */
static int judge(const struct packages *packages)
{
    bool offline = false, failed = false;
    for (size_t i = 0; i < packages->count; i++) {
        offline = offline || packages->list[i].state == PACKAGE_OFFLINE;
        failed = failed || packages->list[i].state >= PACKAGE_NOT_FOUND;
    }
    if (offline)
        fprintf(stderr, "The package index could not be reached from inside: start the sandbox "
                        "with --network, or name\na mirror it can reach, as in "
                        "--env PIP_INDEX_URL=… (npm: --env NPM_CONFIG_REGISTRY=…).\n");
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int install(const char *namespace, const char *name, struct packages *packages)
{
    struct error err;
    struct job job = {0};
    int connection = state_connect(namespace, name, &err);
    if (connection < 0) {
        packages_free(packages);
        return report_error(&err, EXIT_SANDBOX);
    }
    uv_loop_init(&job.loop);
    uv_signal_init(&job.loop, &job.interrupt);
    job.interrupt.data = &job;
    uv_signal_start(&job.interrupt, on_interrupt, SIGINT);
    job.install = (struct install){.packages = *packages,
                                   .timeout_ms = options.timeout_ms,
                                   .line = options.quiet ? NULL : on_line,
                                   .ended = on_ended,
                                   .context = &job};
    int result = EXIT_SANDBOX;
    if (client_open(&job.client, &job.loop, connection, &job.err) == 0) {
        install_start(&job.install, &job.client);
        uv_run(&job.loop, UV_RUN_DEFAULT);
    }
    if (job.err.code != ERROR_NONE) {
        report_error(&job.err, EXIT_SANDBOX);
    } else {
        if (options.json)
            print_list(&job.install.packages);
        else
            print_table(&job.install.packages);
        result = judge(&job.install.packages);
    }
    install_free(&job.install);
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count < 2) {
        error_set(&err, ERROR_INVALID, "msb packages takes a sandbox and the packages to install");
        error_hint(&err, "msb packages NAME PACKAGE…");
        return report_error(&err, EXIT_USAGE);
    }
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    const char *name = arguments->words[0];
    cleanup_free char *language = options.language ? xstrdup(options.language) : NULL;
    if (sandbox_check_name("namespace", namespace, &err) < 0 ||
        sandbox_check_name("sandbox name", name, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (!language && find_language(namespace, name, &language, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    struct packages packages;
    if (packages_init(&packages, language, arguments->words + 1, &err) < 0) {
        packages_free(&packages);
        return report_error(&err, EXIT_USAGE);
    }
    return install(namespace, name, &packages);
}

static const struct option option_table[] = {
    {'l', "language", OPTION_TEXT, &options.language, "LANG",
     "python (pip) or node (npm); default: that of the image"},
    {'t', "timeout", OPTION_SECONDS, &options.timeout_ms, "S", "give up after S seconds"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the sandbox's namespace (default)"},
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "no lines of progress"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "what became of each package, as JSON"},
    {0},
};

const struct command packages_command = {
    .name = "packages",
    .summary = "install packages in a running sandbox",
    .usage = "packages NAME [OPTIONS] PACKAGE…",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "Installs packages with pip or npm inside the sandbox and tells what became of each:\n"
        "installed, present (it was there already), not_found, offline (the index could not be\n"
        "reached), or failed. Live interpreters find new packages at once. The exit code is 0 "
        "when\n"
        "all of them can be used.\n"
        "\n"
        "The index is the public one, which the sandbox needs --network for, or the one that its\n"
        "environment names: PIP_INDEX_URL, PIP_FIND_LINKS with PIP_NO_INDEX=1 for a folder, or\n"
        "NPM_CONFIG_REGISTRY.",
    .examples = "  msb exe python --name box --detach --network pypi.org,files.pythonhosted.org\n"
                "  msb packages box requests 'pydantic<3'\n"
                "  msb exec box -c 'import requests'\n",
    .options = option_table,
    .run = run,
};
