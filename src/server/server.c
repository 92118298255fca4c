#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "base/log_file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "server/context.h"
#include "server/info.h"
#include "server/keys.h"
#include "server/proxy.h"
#include "server/record.h"
#include "server/tools/tools.h"

#define GRACE_MS 10000

static int check_tls(const struct server_options *options, struct error *err)
{
    if (!options->tls_certificate != !options->tls_key) {
        error_set(err, ERROR_INVALID, "TLS needs a certificate and its key");
        return error_hint(err, "give both --tls-cert and --tls-key");
    }
    SSL_CTX *tls =
        options->tls_key ? tls_load(options->tls_certificate, options->tls_key, err) : NULL;
    int result = options->tls_key && !tls ? -1 : 0;
    SSL_CTX_free(tls);
    return result;
}

static int check_engines(const char *list, struct error *err)
{
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        cleanup_free char *name = xstrndup(at, length);
        if (!engine_find(name)) {
            error_set(err, ERROR_INVALID, "there is no engine \"%.40s\"", name);
            return error_hint(err, "use vm, jail, or both with a comma");
        }
        at += length;
        if (!*at)
            return 0;
    }
}

static int check_settings(struct error *err)
{
    struct session_settings settings;
    int result = session_settings_read(&settings, err);
    session_settings_free(&settings);
    return result;
}

int server_check(const struct server_options *options, struct error *err)
{
    if (check_settings(err) < 0 || check_tls(options, err) < 0 ||
        check_engines(options->engines, err) < 0)
        return -1;
    if (options->key && keys_check_secret(options->key, err) < 0)
        return -1;
    if (options->dev && !origin_is_loopback(options->host) && !options->insecure) {
        error_set(err, ERROR_DENIED,
                  "with --dev everybody who reaches %s could run code on this host", options->host);
        return error_hint(err, "leave out --host, or insist with --insecure");
    }
    return 0;
}

/* No request is under way any more; what else there is ends with the process. */
static void on_drained(struct http_server *http)
{
    uv_stop(http->loop);
}

static void on_grace_over(uv_timer_t *grace)
{
    struct server *server = grace->data;
    http_abandon(&server->http);
}

static void on_signal(uv_signal_t *watch, int number)
{
    (void)number;
    struct server *server = watch->data;
    if (server->stopping) {
        http_abandon(&server->http);
        return;
    }
    server->stopping = true;
    tools_close(server);
    uv_timer_start(&server->grace, on_grace_over, GRACE_MS, 0);
    http_drain(&server->http);
}

static int load_tls(struct server *server, struct error *err)
{
    const struct server_options *options = server->options;
    if (!options->tls_certificate)
        return 0;
    SSL_CTX *loaded = tls_load(options->tls_certificate, options->tls_key, err);
    if (!loaded)
        return -1;
    SSL_CTX_free(server->http.tls);
    server->http.tls = loaded;
    return 0;
}

/* A certificate that was renewed is taken into use; one that cannot be used is not. */
static void on_hangup(uv_signal_t *watch, int number)
{
    (void)number;
    struct error err;
    if (load_tls(watch->data, &err) < 0)
        log_warn("the certificate stays as it was: %s", err.message);
    else
        log_info("certificate and key were read anew");
}

static void watch_signals(struct server *server)
{
    uv_signal_init(&server->loop, &server->term);
    uv_signal_init(&server->loop, &server->interrupt);
    uv_signal_init(&server->loop, &server->hangup);
    uv_timer_init(&server->loop, &server->grace);
    server->hangup.data = server->term.data = server->interrupt.data = server->grace.data = server;
    uv_signal_start(&server->term, on_signal, SIGTERM);
    uv_signal_start(&server->interrupt, on_signal, SIGINT);
    if (server->http.tls)
        uv_signal_start(&server->hangup, on_hangup, SIGHUP);
}

/* A connection is a descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int lock_home(struct error *err)
{
    struct server_info running;
    struct error unread;
    int lock = info_lock(err);
    if (lock >= 0 || err->code != ERROR_BUSY)
        return lock;
    error_set(err, ERROR_EXISTS, "a server is running already");
    if (server_find(&running, &unread) == 0)
        error_set(err, ERROR_EXISTS, "a server is running already: process %d on %s port %u",
                  (int)running.pid, running.host, running.port);
    return error_hint(err, "msb server stop ends it");
}

static int listen_on(struct server *server, struct error *err)
{
    const struct server_options *options = server->options;
    int result = http_listen(&server->http, options->host, options->port, err);
    if (result < 0 && strstr(err->message, strerror(EADDRINUSE))) {
        char holder[128];
        port_holder(options->port, holder, sizeof holder);
        error_set(err, ERROR_BUSY, "port %u is taken%s%s", options->port, holder[0] ? " by " : "",
                  holder);
        error_hint(err, "choose another one with --port; 0 takes any that is free");
    }
    return result;
}

static void announce(const struct server *server, struct server_info *info)
{
    *info = (struct server_info){.pid = getpid(),
                                 .port = http_port(&server->http),
                                 .dev = server->options->dev,
                                 .tls = server->http.tls != NULL};
    snprintf(info->host, sizeof info->host, "%s", server->options->host);
    snprintf(info->log, sizeof info->log, "%s", log_file_path() ? log_file_path() : "");
}

static void note(const char *what, const struct server_info *info)
{
    cleanup_free char *url = server_url(info);
    const struct log_field fields[] = {
        {.name = "url", .text = url},
        {.name = "pid", .number = info->pid},
        {.name = "version", .text = MSB_VERSION},
    };
    log_event(LOG_LEVEL_INFO, what, fields, sizeof fields / sizeof fields[0]);
}

/* Once, for each keeper's own log goes with its sandbox. */
static void note_weaknesses(void)
{
    cleanup_free char *text = engine_find("vm")->weaknesses();
    if (text)
        log_warn("machines have less of a wall than on a host: %s", text);
}

static bool admit(struct http_request *request)
{
    if (!origin_admit(request))
        return false;
    proxy_rewrite(request);
    return key_admit(request);
}

static int find_secret(struct server *server, struct error *err)
{
    const struct server_options *options = server->options;
    if (!options->dev)
        server->secret = options->key ? xstrdup(options->key) : keys_secret(err);
    return options->dev || server->secret ? 0 : -1;
}

static void count_start(const struct box *box, uint64_t duration_us, const struct error *err)
{
    struct server *server = box->boxes->context;
    struct figures *figures = figures_of(&server->figures, box->namespace);
    if (err) {
        figures->failed_starts++;
    } else {
        figures->starts++;
        figures_time(&figures->start_time, duration_us);
    }
}

static void prepare(struct server *server, const struct server_options *options)
{
    uv_loop_init(&server->loop);
    server->options = options;
    server->is_loopback = origin_is_loopback(options->host);
    server->boxes = (struct boxes){.loop = &server->loop,
                                   .launcher = &server->launcher,
                                   .started = count_start,
                                   .context = server};
    http_init(&server->http, &server->loop, server_routes);
    server->http.admit = admit;
    server->http.over = record_close;
    server->began_us = clock_monotonic_us();
    server->http.drained = on_drained;
    server->http.context = server;
}

static int open_sessions(struct server *server, struct error *err)
{
    cleanup_free char *path = home_path("server/sessions.db");
    if (session_settings_read(&server->session_settings, err) < 0)
        return -1;
    server->sessions = sessions_open(&server->boxes, &server->session_settings, path, err);
    return server->sessions ? 0 : -1;
}

/* Conversations outlive the server as keys do, also where no keys are asked for. */
static int open_tools(struct server *server, struct error *err)
{
    cleanup_free char *made = server->secret ? NULL : keys_secret(err);
    const char *secret = server->secret ? server->secret : made;
    if (!secret)
        return -1;
    tools_open(server, TOOLS_SANDBOX, secret);
    tools_open(server, TOOLS_SESSIONS, secret);
    return 0;
}

int server_run(const struct server_options *options,
               void (*ready)(const struct server_info *info, void *context), void *context,
               struct error *err)
{
    struct server_info info;
    cleanup_free struct server *server = xcalloc(1, sizeof *server);
    if (server_check(options, err) < 0)
        return -1;
    cleanup_fd int lock = lock_home(err);
    if (lock < 0)
        return -1;
    raise_descriptor_limit();
    prepare(server, options);
    if (load_tls(server, err) < 0 || find_secret(server, err) < 0 || listen_on(server, err) < 0 ||
        launcher_open(&server->launcher, &server->loop, err) < 0 || open_sessions(server, err) < 0)
        return -1;
    server->boxes.pools = pools_open(&server->loop, &server->launcher);
    if (open_tools(server, err) < 0)
        return -1;
    standing_open(server);
    watch_signals(server);
    announce(server, &info);
    if (info_write(&info, err) < 0)
        return -1;
    note("the server listens", &info);
    note_weaknesses();
    ready(&info, context);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    sessions_close(server->sessions);
    session_settings_free(&server->session_settings);
    note("the server has ended", &info);
    SSL_CTX_free(server->http.tls);
    free(server->secret);
    return 0;
}
