#include "sandbox/install.h"

#include <string.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "sandbox/requests.h"

#define LINE_LONGEST 4096
#define CONTENTS_MAX (1u << 20)

static void attempt(struct install *install);

static void finish(struct install *install, const struct error *err)
{
    install->ended(install, err);
}

/* ---- versions, where the manager does not tell them ------------------------------------------ */

static void read_versions(struct install *install);

static void on_contents(struct client_call *call, enum channel channel, const uint8_t *bytes,
                        size_t length)
{
    struct install *install = call->context;
    if (channel == CHANNEL_STDOUT && buf_length(&install->contents) + length <= CONTENTS_MAX)
        buf_append(&install->contents, bytes, length);
    call_consumed(call, length);
}

/* A version that cannot be read is not known, which is no failure. */
static void on_contents_end(struct client_call *call, const struct outcome *outcome)
{
    struct install *install = call->context;
    if (outcome->verdict == VERDICT_DONE)
        packages_take_version(&install->packages.list[install->reading],
                              (const char *)buf_data(&install->contents),
                              buf_length(&install->contents));
    buf_free(&install->contents);
    install->reading++;
    read_versions(install);
}

static void read_versions(struct install *install)
{
    static const struct call_handlers handlers = {.data = on_contents, .end = on_contents_end};
    struct packages *packages = &install->packages;
    for (; install->reading < packages->count; install->reading++) {
        cleanup_free char *path =
            packages_version_path(packages, &packages->list[install->reading]);
        if (!path)
            continue;
        cleanup_buf struct buf fields = {0};
        file_request_fields(&fields, &(struct file_request){.path = path});
        call_start(install->client, &install->call, OP_FILE_READ, &fields, &handlers, install);
        return;
    }
    struct error none = {0};
    finish(install, &none);
}

/* ---- attempts -------------------------------------------------------------------------------- */

static void take_line(struct install *install, int stream, char *line)
{
    bool shown = packages_note(&install->packages, stream == 0, line);
    json_text_clean(line);
    if (install->line && shown)
        install->line(install, line);
}

static void take_lines(struct install *install, int stream, bool is_end)
{
    struct buf *waiting = &install->lines[stream];
    for (;;) {
        const uint8_t *start = buf_data(waiting);
        size_t length = buf_length(waiting);
        const uint8_t *newline = length ? memchr(start, '\n', length) : NULL;
        if (!newline && length < LINE_LONGEST && !(is_end && length))
            return;
        size_t size = newline ? (size_t)(newline - start) : length;
        cleanup_free char *line = xstrndup((const char *)start, size);
        buf_consume(waiting, newline ? size + 1 : size);
        take_line(install, stream, line);
    }
}

static void on_output(struct client_call *call, enum channel channel, const uint8_t *bytes,
                      size_t length)
{
    struct install *install = call->context;
    int stream = channel == CHANNEL_STDERR;
    buf_append(&install->lines[stream], bytes, length);
    take_lines(install, stream, false);
    call_consumed(call, length);
}

static void on_attempt_end(struct client_call *call, const struct outcome *outcome)
{
    struct install *install = call->context;
    struct error err = outcome->error;
    take_lines(install, 0, true);
    take_lines(install, 1, true);
    if (outcome->verdict == VERDICT_TIMEOUT)
        error_set(&err, ERROR_TIMEOUT, "the packages were not installed in time");
    else if (outcome->verdict == VERDICT_CANCELLED)
        error_set(&err, ERROR_CANCELLED, "the installation was interrupted");
    else if (outcome->verdict != VERDICT_EXITED && err.code == ERROR_NONE)
        error_set(&err, ERROR_UNAVAILABLE, "the package manager was killed");
    if (err.code != ERROR_NONE)
        finish(install, &err);
    else if (packages_conclude(&install->packages, outcome->exit_code))
        attempt(install);
    else
        read_versions(install);
}

static void attempt(struct install *install)
{
    static const struct call_handlers handlers = {.data = on_output, .end = on_attempt_end};
    cleanup_strv char **argv = packages_argv(&install->packages);
    cleanup_buf struct buf fields = {0};
    exec_request_fields(&fields,
                        &(struct exec_request){.argv = argv, .timeout_ms = install->timeout_ms});
    call_start(install->client, &install->call, OP_EXEC, &fields, &handlers, install);
    call_give(&install->call, NULL, 0);
}

void install_start(struct install *install, struct sandbox_client *client)
{
    install->client = client;
    attempt(install);
}

void install_cancel(struct install *install)
{
    call_cancel(&install->call);
}

void install_free(struct install *install)
{
    packages_free(&install->packages);
    buf_free(&install->contents);
    for (int i = 0; i < 2; i++)
        buf_free(&install->lines[i]);
}
