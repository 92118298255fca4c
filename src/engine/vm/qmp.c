#include "engine/vm/qmp.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/wait.h"

#define LINE_MAX_BYTES (1u << 20)

static void json_release(json_t **value)
{
    json_decref(*value);
}

#define cleanup_json __attribute__((cleanup(json_release)))

/* The next line as JSON. */
static int next_message(struct qmp *qmp, uint64_t deadline, json_t **message, struct error *err)
{
    for (;;) {
        const uint8_t *text = buf_data(&qmp->in);
        size_t available = buf_length(&qmp->in);
        const uint8_t *end = available ? memchr(text, '\n', available) : NULL;
        if (end) {
            json_error_t reason;
            *message = json_loadb((const char *)text, (size_t)(end - text), 0, &reason);
            buf_consume(&qmp->in, (size_t)(end - text) + 1);
            return *message ? 0 : error_set(err, ERROR_PROTOCOL, "QEMU sent no JSON");
        }
        if (available > LINE_MAX_BYTES)
            return error_set(err, ERROR_PROTOCOL, "QEMU sent an endless line");
        int result = wait_readable(&qmp->fd, 1, deadline, "QEMU", err);
        if (result < 0)
            return result;
        ssize_t got = recv(qmp->fd, buf_reserve(&qmp->in, 16384), 16384, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return error_set(err, ERROR_UNAVAILABLE, "QEMU ended");
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return error_errno(err, errno, "cannot read from QEMU");
        if (got > 0)
            buf_commit(&qmp->in, (size_t)got);
    }
}

/* Events and the greeting are passed over. */
static int await_answer(struct qmp *qmp, uint64_t deadline, struct error *err)
{
    for (;;) {
        cleanup_json json_t *message = NULL;
        int result = next_message(qmp, deadline, &message, err);
        if (result < 0)
            return result;
        if (json_object_get(message, "return"))
            return 0;
        const json_t *error = json_object_get(message, "error");
        if (error) {
            const char *text = json_string_value(json_object_get(error, "desc"));
            return error_set(err, ERROR_IO, "QEMU refused: %s", text ? text : "?");
        }
    }
}

int qmp_settle(struct qmp *qmp, int timeout_ms, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    int result = 0;
    for (; qmp->unanswered && result == 0; qmp->unanswered--)
        result = await_answer(qmp, deadline, err);
    return result;
}

static int say(struct qmp *qmp, const struct buf *text, int fd, struct error *err)
{
    if (fdpass_send(qmp->fd, buf_data(text), buf_length(text), fd) < 0)
        return error_errno(err, errno, "cannot reach QEMU");
    return 0;
}

int qmp_begin(struct qmp *qmp, const char *name, struct error *err)
{
    cleanup_buf struct buf text = {0};
    buf_printf(&text, "{\"execute\":\"%s\"", name);
    qmp->is_begun = true;
    return say(qmp, &text, -1, err);
}

int qmp_send(struct qmp *qmp, const char *name, const char *arguments, int fd, struct error *err)
{
    cleanup_buf struct buf text = {0};
    if (!qmp->is_begun)
        buf_printf(&text, "{\"execute\":\"%s\"", name);
    if (arguments)
        buf_printf(&text, ",\"arguments\":%s", arguments);
    buf_append_text(&text, "}\n");
    qmp->is_begun = false;
    qmp->unanswered++;
    return say(qmp, &text, fd, err);
}

int qmp_command(struct qmp *qmp, const char *name, const char *arguments, int fd, int timeout_ms,
                struct error *err)
{
    int result = qmp_settle(qmp, timeout_ms, err);
    if (result == 0)
        result = qmp_send(qmp, name, arguments, fd, err);
    if (result == 0)
        result = qmp_settle(qmp, timeout_ms, err);
    return result < 0 ? error_wrap(err, "%s", name) : 0;
}

int qmp_wait_migration(struct qmp *qmp, int timeout_ms, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    for (;;) {
        cleanup_json json_t *message = NULL;
        int result = next_message(qmp, deadline, &message, err);
        if (result < 0)
            return error_wrap(err, "waiting for the machine's state");
        const char *event = json_string_value(json_object_get(message, "event"));
        if (!event || strcmp(event, "MIGRATION") != 0)
            continue;
        const char *status =
            json_string_value(json_object_get(json_object_get(message, "data"), "status"));
        if (status && strcmp(status, "completed") == 0)
            return 0;
        if (status && strcmp(status, "failed") == 0)
            return error_set(err, ERROR_IO, "QEMU could not move the machine's state");
    }
}

int qmp_open(struct qmp *qmp, int fd, const char *commands, struct error *err)
{
    *qmp = (struct qmp){.fd = fd, .unanswered = 1};
    cleanup_buf struct buf lines = {0};
    buf_append_text(&lines, "{\"execute\":\"qmp_capabilities\"}\n");
    if (commands)
        buf_append_text(&lines, commands);
    for (const char *at = commands; at && (at = strchr(at, '\n')); at++)
        qmp->unanswered++;
    if (fdpass_send(fd, buf_data(&lines), buf_length(&lines), -1) < 0)
        return error_errno(err, errno, "cannot reach QEMU");
    return 0;
}

void qmp_continue(struct qmp *qmp, int fd)
{
    *qmp = (struct qmp){.fd = fd};
}

void qmp_close(struct qmp *qmp)
{
    fd_close(qmp->fd);
    qmp->fd = -1;
    buf_free(&qmp->in);
}
