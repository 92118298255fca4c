/* $MSB_HOME/server: who serves, and where. */
#include "server/info.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"

#define INFO_MAX (4u * PATH_MAX)
#define STOP_MS 30000

int info_lock(struct error *err)
{
    cleanup_free char *folder = home_path("server");
    cleanup_free char *path = home_path("server/lock");
    if (folder_make(folder, 0700, err) < 0)
        return -1;
    return file_lock(path, false, err);
}

int info_write(const struct server_info *info, struct error *err)
{
    cleanup_free char *path = home_path("server/info.json");
    json_t *json = json_pack("{s:i, s:s, s:i, s:b, s:b, s:s}", "pid", (int)info->pid, "host",
                             info->host, "port", (int)info->port, "dev", (int)info->dev, "tls",
                             (int)info->tls, "log", info->log);
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return file_write_atomic(path, text, strlen(text), 0600, err);
}

static int info_read(struct server_info *info, struct error *err)
{
    cleanup_free char *path = home_path("server/info.json");
    cleanup_buf struct buf text = {0};
    const char *host, *log = "";
    int pid, port, dev, tls = 0;
    if (file_read(path, INFO_MAX, &text, err) < 0)
        return -1;
    json_t *json = json_loads(buf_text(&text), 0, NULL);
    int result = json_unpack(json, "{s:i, s:s, s:i, s:b, s?b, s?s}", "pid", &pid, "host", &host,
                             "port", &port, "dev", &dev, "tls", &tls, "log", &log);
    if (result == 0) {
        *info = (struct server_info){.pid = pid, .port = (uint16_t)port, .dev = dev, .tls = tls};
        snprintf(info->host, sizeof info->host, "%s", host);
        snprintf(info->log, sizeof info->log, "%s", log);
    }
    json_decref(json);
    return result < 0 ? error_set(err, ERROR_PROTOCOL, "%s is damaged", path) : 0;
}

char *server_url(const struct server_info *info)
{
    bool v6 = strchr(info->host, ':') != NULL;
    return xasprintf("http%s://%s%s%s:%u", info->tls ? "s" : "", v6 ? "[" : "", info->host,
                     v6 ? "]" : "", info->port);
}

int server_find(struct server_info *info, struct error *err)
{
    cleanup_fd int lock = info_lock(err);
    if (lock >= 0) {
        error_set(err, ERROR_NOT_FOUND, "no server is running");
        return error_hint(err, "msb server start --dev starts one");
    }
    return err->code == ERROR_BUSY ? info_read(info, err) : -1;
}

int server_find_last(struct server_info *info, struct error *err)
{
    if (info_read(info, err) == 0)
        return 0;
    if (err->code == ERROR_NOT_FOUND)
        error_set(err, ERROR_NOT_FOUND, "no server has run here yet");
    return -1;
}

int server_stop(const struct server_info *info, struct error *err)
{
    cleanup_fd int process = (int)syscall(SYS_pidfd_open, info->pid, 0);
    if (process < 0 || syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) < 0)
        return errno == ESRCH ? 0 : error_errno(err, errno, "cannot end the server");
    struct pollfd wait = {.fd = process, .events = POLLIN};
    if (poll(&wait, 1, STOP_MS) == 1)
        return 0;
    error_set(err, ERROR_TIMEOUT, "the server (process %d) has not ended", (int)info->pid);
    return error_hint(err, "kill -9 %d ends it; its sandboxes live on", (int)info->pid);
}
