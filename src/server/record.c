#include "server/record.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* Longer ones are cut in the log. */
#define PATH_SHOWN 200

struct record *record_of(struct http_request *request)
{
    if (!request->record)
        request->record = xcalloc(1, sizeof(struct record));
    return request->record;
}

void record_note(struct http_request *request, const char *namespace, const char *sandbox)
{
    struct record *record = record_of(request);
    snprintf(record->namespace, sizeof record->namespace, "%s", namespace);
    snprintf(record->sandbox, sizeof record->sandbox, "%s", sandbox);
}

static void count(struct server *server, const struct http_request *request,
                  const struct record *record, uint64_t duration_us)
{
    struct figures *figures = figures_of(&server->figures, record->namespace);
    figures->bytes_in += request->received;
    figures->bytes_out += request->sent;
    if (record->method) {
        figures->calls[record->method - rpc_methods]++;
        figures_time(&figures->call_time, duration_us);
    }
    if (record->code)
        figures->errors[rpc_code_index(record->code)]++;
}

/* Probes come every few seconds for ever and are of no interest when all is well. */
static enum log_level level_of(const struct http_request *request)
{
    bool is_probe =
        request->route && strcmp(request->method, "GET") == 0 &&
        (strcmp(request->path, "/api/v1/health") == 0 || strcmp(request->path, "/metrics") == 0);
    return is_probe && request->status == 200 ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

static struct log_field text_field(const char *name, const char *text)
{
    return (struct log_field){.name = text && text[0] ? name : NULL, .text = text};
}

static struct log_field number_field(const char *name, int64_t number, bool is_shown)
{
    return (struct log_field){.name = is_shown ? name : NULL, .number = number};
}

static void write_log(enum log_level level, const struct http_request *request,
                      const struct record *record, uint64_t duration_us)
{
    char path[PATH_SHOWN + 1];
    bool failed = record->code != 0;
    snprintf(path, sizeof path, "%s", request->path ? request->path : "");
    const struct log_field fields[] = {
        text_field("id", request->id),
        text_field("method", request->method),
        text_field("path", path),
        text_field("call", record->method ? record->method->name : NULL),
        text_field("tool", record->tool),
        text_field("namespace", record->namespace),
        text_field("sandbox", record->sandbox),
        number_field("status", request->status, request->status != 0),
        number_field("code", record->code, failed),
        text_field("error", failed ? error_code_name(record->error) : NULL),
        number_field("left", 1, request->was_left),
        number_field("duration_us", (int64_t)duration_us, true),
        number_field("bytes_in", (int64_t)request->received, true),
        number_field("bytes_out", (int64_t)request->sent, true),
    };
    log_event(level, "request", fields, sizeof fields / sizeof fields[0]);
}

void record_close(struct http_request *request)
{
    static const struct record nothing;
    struct server *server = request->server->context;
    struct record *record = steal_pointer(&request->record);
    uint64_t duration_us = clock_monotonic_us() - request->began_us;
    enum log_level level = level_of(request);
    if (request->status > 0 && request->status < SERVER_STATUSES)
        server->answers[request->status]++;
    if (record)
        count(server, request, record, duration_us);
    if (log_takes(level))
        write_log(level, request, record ? record : &nothing, duration_us);
    free(record);
}
