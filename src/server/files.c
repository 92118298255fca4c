/*
 * GET …/files/PATH: first its size and date, which decide what is asked for, then its contents.
 * What is no plain file has neither and is sent as it comes.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/records.h"
#include "sandbox/requests.h"
#include "server/content_type.h"
#include "server/context.h"
#include "server/files.h"
#include "server/relay.h"

struct download {
    struct relay relay;
    struct files_sending how;
    char *path;
    struct records records;
    json_t *entry;
    struct http_part part;
    bool is_sized;
    uint64_t sent;
};

static void download_free(struct download *download)
{
    records_free(&download->records);
    json_decref(download->entry);
    buf_free(&download->relay.waiting);
    free(download->path);
    if (download->how.over)
        download->how.over(download->how.context);
    free(download);
}

static void on_gone(struct http_request *request)
{
    struct download *download = request->context;
    relay_left(&download->relay);
}

static void on_drained(struct http_request *request)
{
    struct download *download = request->context;
    relay_drained(&download->relay);
}

/* RFC 6266: the name for everybody, then the true one. */
static void add_disposition(struct http_request *request, const char *path, bool shown)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    cleanup_buf struct buf text = {0};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    buf_printf(&text, "%s; filename=\"", shown ? "inline" : "attachment");
    for (const char *at = name; *at; at++)
        buf_append(&text, strchr(plain, *at) ? at : "_", 1);
    buf_append_text(&text, "\"; filename*=UTF-8''");
    for (const char *at = name; *at; at++) {
        if (strchr(plain, *at))
            buf_append(&text, at, 1);
        else
            buf_printf(&text, "%%%02X", (unsigned)(unsigned char)*at);
    }
    http_add_header(request, "Content-Disposition", buf_text(&text));
}

/* `bytes` are the first ones of the answer. */
static void begin_answer(struct download *download, const uint8_t *bytes, size_t length)
{
    struct http_request *request = download->relay.request;
    const char *type = download->part.from == 0 ? content_type_of(download->path, bytes, length)
                                                : content_type(download->path);
    add_disposition(request, download->path, download->how.shown);
    /* A browser must not run on our behalf what a sandbox made. */
    http_add_header(request, "X-Content-Type-Options", "nosniff");
    http_add_header(request, "Content-Security-Policy", "sandbox");
    if (download->is_sized)
        http_stream_begin_sized(request, download->part.status, type, download->part.length);
    else
        http_stream_begin(request, 200, type);
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct download *download = call->context;
    struct http_request *request = download->relay.request;
    if (channel == CHANNEL_STDOUT && request) {
        if (!request->is_answering)
            begin_answer(download, bytes, length);
        download->sent += length;
        http_stream_send(request, bytes, length);
    }
    relay_passed(&download->relay, length);
}

/* A file that became shorter meanwhile cannot keep what its head has promised. */
static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct download *download = call->context;
    struct http_request *request = download->relay.request;
    bool failed = outcome->verdict != VERDICT_DONE;
    if (request && failed && !request->is_answering) {
        http_answer_failure(request, &outcome->error);
    } else if (request) {
        if (!request->is_answering)
            begin_answer(download, NULL, 0);
        if (failed || (download->is_sized && download->sent != download->part.length))
            http_stream_break(request);
        else
            http_stream_end(request);
    }
    download_free(download);
}

static void read_contents(struct download *download, struct sandbox_client *client)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    cleanup_buf struct buf fields = {0};
    struct file_request request = {
        .path = download->path, .offset = download->part.from, .beneath = download->how.beneath};
    if (download->is_sized)
        request.length = &download->part.length;
    file_request_fields(&fields, &request);
    download->relay.is_calling = true;
    call_start(client, &download->relay.call, OP_FILE_READ, &fields, &handlers, download);
}

/* What can be answered without the contents. */
static bool answer_without(struct download *download)
{
    struct http_request *request = download->relay.request;
    struct error err;
    uint64_t max = download->how.max;
    if (max && download->is_sized && download->part.length > max) {
        error_set(&err, ERROR_LIMIT, "the file is longer than the %llu bytes that are sent at once",
                  (unsigned long long)max);
        error_hint(&err, "ask for a part of it, with a Range header");
        http_answer_error(request, 413, &err);
    } else if (download->part.status == 304) {
        http_answer(request, 304, NULL, NULL, 0);
    } else if (download->part.status == 416) {
        error_set(&err, ERROR_INVALID, "the file has no such part");
        http_answer_error(request, 416, &err);
    } else if (request->is_head) {
        begin_answer(download, NULL, 0);
        http_stream_end(request);
    } else {
        return false;
    }
    return true;
}

static void choose_part(struct download *download)
{
    char tag[64];
    const json_t *entry = download->entry;
    const char *type = json_string_value(json_object_get(entry, "type"));
    json_int_t size = json_integer_value(json_object_get(entry, "size"));
    /* Files that the kernel makes up seem empty. */
    download->is_sized = type && strcmp(type, "file") == 0 && size > 0;
    if (!download->is_sized)
        return;
    snprintf(tag, sizeof tag, "\"%llx-%llx\"", (unsigned long long)size,
             (unsigned long long)json_integer_value(json_object_get(entry, "mtime_us")));
    download->part = http_choose_part(download->relay.request, (uint64_t)size, tag);
}

static void on_stat_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                         size_t length)
{
    struct download *download = call->context;
    call_consumed(call, length);
    if (channel != CHANNEL_RESULTS || download->entry)
        return;
    records_feed(&download->records, bytes, length);
    download->entry = records_next(&download->records);
}

static void on_stat_end(struct client_call *call, const struct outcome *outcome)
{
    struct download *download = call->context;
    download->relay.is_calling = false;
    if (download->relay.request && outcome->verdict == VERDICT_DONE) {
        choose_part(download);
        if (!answer_without(download)) {
            read_contents(download, call->client);
            return;
        }
    } else if (download->relay.request) {
        http_answer_failure(download->relay.request, &outcome->error);
    }
    download_free(download);
}

void files_send(struct http_request *request, struct sandbox_client *client,
                const struct files_sending *how)
{
    static const struct call_handlers handlers = {.data = on_stat_data, .end = on_stat_end};
    cleanup_buf struct buf fields = {0};
    struct download *download = xcalloc(1, sizeof *download);
    download->how = *how;
    download->path = xstrdup(how->path);
    download->relay.request = request;
    download->relay.is_calling = true;
    request->context = download;
    request->gone = on_gone;
    request->drained = on_drained;
    file_request_fields(&fields,
                        &(struct file_request){.path = download->path, .beneath = how->beneath});
    call_start(client, &download->relay.call, OP_FILE_STAT, &fields, &handlers, download);
}

void files_get(struct http_request *request)
{
    struct box *box = path_box(request);
    if (box)
        files_send(request, &box->client,
                   &(struct files_sending){.path = http_parameter(request, "*")});
}
