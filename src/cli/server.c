#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/log_file.h"
#include "base/mem.h"
#include "base/title.h"
#include "cli/command.h"
#include "sandbox/config.h"
#include "sandbox/launcher.h"
#include "server/keys.h"
#include "server/notify.h"
#include "server/server.h"

static struct {
    const char *host;
    unsigned port;
    bool dev, insecure, detach;
    const char *tls_certificate, *tls_key;
    const char *key, *lifetime, *namespace, *revoke, *engines;
    char **volumes;
} options = {.host = "127.0.0.1", .port = 5555, .lifetime = "24h"};

static void print_url(const struct server_info *info)
{
    cleanup_free char *url = server_url(info);
    printf("%s\n", url);
    fflush(stdout);
}

static void on_ready(const struct server_info *info, void *context)
{
    (void)context;
    print_url(info);
    notify_ready();
}

/* What the server in the background tells the command that started it: an error or, if that has no
 * code, where it listens. */
struct report {
    struct error err;
    struct server_info info;
};

static void on_ready_behind(const struct server_info *info, void *context)
{
    struct report report = {.info = *info};
    int *pipe = context;
    file_write_all(*pipe, &report, sizeof report);
    fd_close(steal_fd(pipe));
}

/* The launcher is to write to it too, so the environment tells. */
static int choose_log(struct error *err)
{
    cleanup_free char *folder = home_path("server");
    cleanup_free char *path = home_path("server/server.log");
    if (options.detach) {
        if (folder_make(folder, 0700, err) < 0)
            return -1;
        setenv("MSB_LOG_FILE", path, false);
    }
    log_set_speaker("msb server");
    return log_configure(LOG_LEVEL_INFO, NULL, err);
}

/* Last words that are no log lines go there as well. */
static int open_stderr(void)
{
    return open(log_file_path(), O_WRONLY | O_APPEND | O_CLOEXEC);
}

static _Noreturn void serve_behind(const struct server_options *wanted, int pipe)
{
    struct report report = {0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(open_stderr(), STDERR_FILENO);
    int result = server_run(wanted, on_ready_behind, &pipe, &report.err);
    if (result < 0 && pipe >= 0)
        file_write_all(pipe, &report, sizeof report);
    _exit(result < 0 ? EXIT_SANDBOX : 0);
}

static int start_behind(const struct server_options *wanted)
{
    struct report report = {0};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return EXIT_SANDBOX;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        serve_behind(wanted, ends[1]);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &report, sizeof report);
    close(ends[0]);
    if (got != sizeof report) {
        error_set(&report.err, ERROR_UNAVAILABLE, "the server ended while it started");
        error_hint(&report.err, "msb server log may tell why");
    }
    if (report.err.code != ERROR_NONE)
        return report_error(&report.err, EXIT_SANDBOX);
    print_url(&report.info);
    return 0;
}

static int refuse_words(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0)
        return 0;
    error_set(&err, ERROR_INVALID, "\"%.60s\" is too much here", arguments->words[0]);
    return report_error(&err, EXIT_USAGE);
}

/* Arguments vanish with the title of the process. */
static char *copy_option(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

/* As they are on disk, so that nothing else is below them by another name. */
static int resolve_volumes(char ***folders, struct error *err)
{
    for (size_t i = 0; options.volumes && options.volumes[i]; i++) {
        char *folder = realpath(options.volumes[i], NULL);
        if (!folder)
            return error_errno(err, errno, "cannot allow volumes in %s", options.volumes[i]);
        strv_append(folders, folder);
    }
    return 0;
}

static const char *default_engines(void)
{
    const char *engine = getenv("MSB_ENGINE");
    return engine && engine[0] ? engine : SANDBOX_DEFAULT_ENGINE;
}

static int start(const struct arguments *arguments)
{
    struct error err;
    const char *engines = options.engines ? options.engines : default_engines();
    cleanup_free char *host = xstrdup(options.host), *allowed = xstrdup(engines),
                      *key = copy_option(options.key),
                      *tls_certificate = copy_option(options.tls_certificate),
                      *tls_key = copy_option(options.tls_key);
    cleanup_strv char **volumes = NULL;
    if (resolve_volumes(&volumes, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    struct server_options wanted = {.host = host,
                                    .port = (uint16_t)options.port,
                                    .dev = options.dev,
                                    .key = key,
                                    .insecure = options.insecure,
                                    .tls_certificate = tls_certificate,
                                    .tls_key = tls_key,
                                    .volumes = volumes,
                                    .engines = allowed};
    if (refuse_words(arguments))
        return EXIT_USAGE;
    if (options.port > UINT16_MAX) {
        error_set(&err, ERROR_INVALID, "there is no port %u", options.port);
        return report_error(&err, EXIT_USAGE);
    }
    if (server_check(&wanted, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    cleanup_free char *weakness = key ? keys_weakness(key) : NULL;
    if (weakness)
        fprintf(stderr, "msb: %s\n", weakness);
    if (choose_log(&err) < 0)
        return report_error(&err, EXIT_USAGE);
    /* Also takes the key out of what ps shows. */
    title_set("msb server");
    if (options.detach)
        return start_behind(&wanted);
    return server_run(&wanted, on_ready, NULL, &err) < 0 ? report_error(&err, EXIT_SANDBOX) : 0;
}

static int stop(const struct arguments *arguments)
{
    struct error err;
    struct server_info info;
    if (refuse_words(arguments))
        return EXIT_USAGE;
    if (server_find(&info, &err) < 0 || server_stop(&info, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    return 0;
}

static int make_key(struct error *err)
{
    int64_t seconds;
    struct key_grant grant = {0};
    const char *namespace = options.namespace ? options.namespace : KEY_ALL_NAMESPACES;
    if (keys_parse_lifetime(options.lifetime, &seconds, err) < 0 ||
        (options.key && keys_check_secret(options.key, err) < 0))
        return -1;
    if (strcmp(namespace, KEY_ALL_NAMESPACES) != 0 &&
        sandbox_check_name("namespace", namespace, err) < 0)
        return -1;
    cleanup_free char *secret = options.key ? xstrdup(options.key) : keys_secret(err);
    if (!secret)
        return -1;
    snprintf(grant.namespace, sizeof grant.namespace, "%s", namespace);
    grant.expires = time(NULL) + seconds;
    cleanup_free char *key = keys_make(secret, &grant);
    printf("%s\n", key);
    fprintf(stderr, "id %s, namespace %s\n", grant.id, grant.namespace);
    return 0;
}

static int keygen(const struct arguments *arguments)
{
    struct error err;
    if (refuse_words(arguments))
        return EXIT_USAGE;
    int result = options.revoke ? keys_revoke(options.revoke, &err) : make_key(&err);
    return result < 0 ? report_error(&err, EXIT_USAGE) : 0;
}

static const struct option start_options[] = {
    {0, "host", OPTION_TEXT, &options.host, "ADDR", "the address to listen on (127.0.0.1)"},
    {0, "port", OPTION_COUNT, &options.port, "N", "the port; 0 takes any that is free (5555)"},
    {0, "dev", OPTION_FLAG, &options.dev, NULL, "ask nobody for a key"},
    {0, "key", OPTION_TEXT, &options.key, "SECRET",
     "signs API keys, instead of server.key in the home folder"},
    {0, "tls-cert", OPTION_TEXT, &options.tls_certificate, "FILE",
     "speak HTTPS with this certificate (PEM); read anew at SIGHUP"},
    {0, "tls-key", OPTION_TEXT, &options.tls_key, "FILE", "the certificate's private key (PEM)"},
    {0, "insecure", OPTION_FLAG, &options.insecure, NULL,
     "with --dev, also on an address that others can reach"},
    {0, "engine", OPTION_TEXT, &options.engines, "LIST",
     "what may isolate sandboxes: vm, jail, or both with a comma; the first is for those that "
     "name none (vm)"},
    {0, "allow-volumes", OPTION_LIST, &options.volumes, "FOLDER",
     "clients may share it, or folders in it, with their sandboxes"},
    {'d', "detach", OPTION_FLAG, &options.detach, NULL,
     "go on in the background; returns when the server answers"},
    {0},
};

const struct command server_start_command = {
    .name = "server start",
    .summary = "serve the HTTP API",
    .usage = "server start [OPTIONS]",
    .description =
        "Serves the API (docs/api.md) until it is stopped, and prints where. Sandboxes that it\n"
        "starts live on when it ends; the next server finds them again, and msb ps lists them.\n"
        "Every request needs a key (msb server keygen), unless --dev is given.\n"
        "Clients get nothing of this host but what --engine and --allow-volumes say.\n"
        "On an address of this host only, requests of web pages of others are refused.",
    .examples = "  msb server start --dev\n"
                "  msb server start --dev --port 8000 --detach\n"
                "  msb server start --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem\n"
                "  curl http://127.0.0.1:5555/api/v1/health\n",
    .options = start_options,
    .run = start,
};

const struct command server_stop_command = {
    .name = "server stop",
    .summary = "end the server; its sandboxes live on",
    .usage = "server stop",
    .description = "Asks the server to end and waits until it has. Requests under way may finish,\n"
                   "within ten seconds. Sandboxes are left alone.",
    .run = stop,
};

static const struct option keygen_options[] = {
    {0, "expire", OPTION_TEXT, &options.lifetime, "TIME",
     "how long it is good: 90s, 30m, 24h, 7d, 2w, 6mo, 1y (24h)"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the namespace it is good for (all)"},
    {0, "key", OPTION_TEXT, &options.key, "SECRET", "the secret the server was started with"},
    {0, "revoke", OPTION_TEXT, &options.revoke, "ID", "make no key, but this one worthless"},
    {0},
};

const struct command server_keygen_command = {
    .name = "server keygen",
    .summary = "make or revoke a key for the HTTP API",
    .usage = "server keygen [OPTIONS]",
    .description =
        "Prints a key for requests to the server, and on stderr its id. The key is good for\n"
        "all namespaces or, with --namespace, for one: it then neither sees nor touches\n"
        "sandboxes of another. Revoking works at once; removing server.key from the home\n"
        "folder makes all keys worthless.",
    .examples = "  msb server keygen\n"
                "  msb server keygen --expire 7d --namespace team-a\n"
                "  msb server keygen --revoke 0123456789abcdef\n",
    .options = keygen_options,
    .run = keygen,
};

static int launcher(const struct arguments *arguments)
{
    (void)arguments;
    launcher_main();
}

const struct command server_launcher_command = {
    .name = "server launcher",
    .usage = "server launcher",
    .description = "The part of the server that starts sandboxes; of no use by itself.",
    .run = launcher,
};
