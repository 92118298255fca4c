/* sandbox.file.read, write, list, remove. Contents are text, or base64 where they are not. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "sandbox/requests.h"
#include "server/base64.h"
#include "server/gather.h"
#include "server/rpc.h"

#define READ_MAX (16ull << 20)
#define LIST_MAX 10000

struct file_call {
    struct rpc_call *call; /* NULL: the client has left */
    struct gather gather;
    struct client_call reading;
    struct buf content;
    const char *encoding;
    bool too_long;
};

static void file_free(struct file_call *file)
{
    gather_free(&file->gather);
    buf_free(&file->content);
    free(file);
}

static struct file_call *file_new(struct rpc_call *call)
{
    struct file_call *file = xcalloc(1, sizeof *file);
    file->call = call;
    file->gather.context = file;
    call->context = file;
    return file;
}

static void left_collecting(struct rpc_call *call)
{
    struct file_call *file = call->context;
    file->call = NULL;
    call_cancel(&file->gather.collection.call);
}

static void left_reading(struct rpc_call *call)
{
    struct file_call *file = call->context;
    file->call = NULL;
    call_cancel(&file->reading);
}

/* Reads path, user and cwd, which all have, into the request. */
static int file_params(struct rpc_call *call, struct file_request *request, struct error *err)
{
    return rpc_need_text(call, "path", &request->path, err) < 0 ||
                   rpc_text(call, "user", &request->user, err) < 0 ||
                   rpc_text(call, "cwd", &request->cwd, err) < 0
               ? -1
               : 0;
}

static int file_fields(struct buf *fields, const struct file_request *request, struct error *err)
{
    file_request_fields(fields, request);
    return buf_length(fields) > FRAME_MAX ? error_set(err, ERROR_LIMIT, "the path is too long") : 0;
}

static void refuse(struct file_call *file, const struct error *err)
{
    rpc_fail(file->call, err);
    file_free(file);
}

static void collect(struct file_call *file, enum operation operation, const struct buf *fields,
                    void (*ended)(struct gather *, const struct outcome *))
{
    struct box *box = rpc_box(file->call);
    if (!box) {
        file_free(file);
        return;
    }
    file->call->left = left_collecting;
    file->gather.ended = ended;
    gather_start(&file->gather, &box->client, operation, fields, buf_data(&file->content),
                 buf_length(&file->content));
}

/* ---- read ---------------------------------------------------------------------------------- */

static json_t *as_base64(const struct buf *content)
{
    cleanup_free char *text = base64_make(buf_data(content), buf_length(content));
    return json_string(text);
}

static bool is_text(const struct buf *content)
{
    for (size_t at = 0; at < buf_length(content);) {
        size_t step = utf8_sequence(buf_data(content) + at, buf_length(content) - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

static json_t *describe_content(const struct file_call *file)
{
    bool text = strcmp(file->encoding, "base64") != 0 && is_text(&file->content);
    json_t *content =
        text ? json_stringn((const char *)buf_data(&file->content), buf_length(&file->content))
             : as_base64(&file->content);
    return json_pack("{s:o, s:s, s:I}", "content", content, "encoding", text ? "utf-8" : "base64",
                     "size", (json_int_t)buf_length(&file->content));
}

static void on_read_data(struct client_call *reading, enum channel channel, const uint8_t *bytes,
                         size_t length)
{
    struct file_call *file = reading->context;
    call_consumed(reading, length);
    if (file->too_long || channel != CHANNEL_STDOUT)
        return;
    file->too_long = buf_length(&file->content) + length > READ_MAX;
    if (file->too_long)
        call_cancel(reading);
    else
        buf_append(&file->content, bytes, length);
}

static void on_read_end(struct client_call *reading, const struct outcome *outcome)
{
    struct file_call *file = reading->context;
    struct error err = outcome->error;
    if (file->too_long) {
        error_set(&err, ERROR_LIMIT, "the file is longer than %llu MB", READ_MAX >> 20);
        error_hint(&err, "read it in parts, with \"offset\" and \"length\"");
    }
    if (file->call && err.code != ERROR_NONE)
        rpc_fail(file->call, &err);
    else if (file->call)
        rpc_succeed(file->call, describe_content(file));
    file_free(file);
}

void method_file_read(struct rpc_call *call)
{
    static const struct call_handlers handlers = {.data = on_read_data, .end = on_read_end};
    cleanup_buf struct buf fields = {0};
    struct error err;
    uint64_t length = READ_MAX + 1;
    struct file_request request = {.length = &length};
    struct file_call *file = file_new(call);
    file->encoding = "utf-8";
    if (file_params(call, &request, &err) < 0 ||
        rpc_text(call, "encoding", &file->encoding, &err) < 0 ||
        rpc_number(call, "offset", INT64_MAX, &request.offset, &err) < 0 ||
        rpc_number(call, "length", READ_MAX, &length, &err) < 0 ||
        file_fields(&fields, &request, &err) < 0) {
        refuse(file, &err);
        return;
    }
    struct box *box = rpc_box(call);
    if (!box) {
        file_free(file);
        return;
    }
    call->left = left_reading;
    call_start(&box->client, &file->reading, OP_FILE_READ, &fields, &handlers, file);
}

/* ---- write --------------------------------------------------------------------------------- */

static int take_content(struct file_call *file, struct error *err)
{
    const char *text;
    file->encoding = "utf-8";
    if (rpc_need_text(file->call, "content", &text, err) < 0 ||
        rpc_text(file->call, "encoding", &file->encoding, err) < 0)
        return -1;
    if (strcmp(file->encoding, "base64") == 0)
        return base64_take(&file->content, text, strlen(text)) < 0
                   ? error_set(err, ERROR_INVALID, "\"content\" is no base64")
                   : 0;
    if (strcmp(file->encoding, "utf-8") != 0)
        return error_set(err, ERROR_INVALID, "\"encoding\" must be utf-8 or base64");
    buf_append(&file->content, text, strlen(text));
    return 0;
}

static void on_changed(struct gather *gather, const struct outcome *outcome)
{
    struct file_call *file = gather->context;
    if (file->call && outcome->error.code != ERROR_NONE)
        rpc_fail(file->call, &outcome->error);
    else if (file->call)
        rpc_succeed(file->call, json_pack("{s:b}", "success", 1));
    file_free(file);
}

void method_file_write(struct rpc_call *call)
{
    cleanup_buf struct buf fields = {0};
    struct error err;
    uint64_t mode = 0644;
    struct file_request request = {.parents = true};
    struct file_call *file = file_new(call);
    if (file_params(call, &request, &err) < 0 || take_content(file, &err) < 0 ||
        rpc_flag(call, "append", &request.append, &err) < 0 ||
        rpc_number(call, "mode", 07777, &mode, &err) < 0) {
        refuse(file, &err);
        return;
    }
    unsigned bits = (unsigned)mode;
    if (json_object_get(call->params, "mode"))
        request.mode = &bits;
    if (file_fields(&fields, &request, &err) < 0)
        refuse(file, &err);
    else
        collect(file, OP_FILE_WRITE, &fields, on_changed);
}

/* ---- list, remove -------------------------------------------------------------------------- */

static void on_listed(struct gather *gather, const struct outcome *outcome)
{
    struct file_call *file = gather->context;
    if (file->call && outcome->error.code != ERROR_NONE)
        rpc_fail(file->call, &outcome->error);
    else if (file->call)
        rpc_succeed(file->call, json_pack("{s:O}", "entries", gather->collection.records));
    file_free(file);
}

void method_file_list(struct rpc_call *call)
{
    cleanup_buf struct buf fields = {0};
    struct error err;
    uint64_t depth = 1;
    struct file_request request = {.limit = LIST_MAX};
    struct file_call *file = file_new(call);
    int result = file_params(call, &request, &err);
    if (result == 0)
        result = rpc_number(call, "depth", 64, &depth, &err);
    request.depth = (unsigned)depth;
    if (result < 0 || file_fields(&fields, &request, &err) < 0)
        refuse(file, &err);
    else
        collect(file, OP_FILE_LIST, &fields, on_listed);
}

void method_file_remove(struct rpc_call *call)
{
    cleanup_buf struct buf fields = {0};
    struct error err;
    struct file_request request = {0};
    struct file_call *file = file_new(call);
    if (file_params(call, &request, &err) < 0 ||
        rpc_flag(call, "recursive", &request.recursive, &err) < 0 ||
        file_fields(&fields, &request, &err) < 0)
        refuse(file, &err);
    else
        collect(file, OP_FILE_REMOVE, &fields, on_changed);
}
