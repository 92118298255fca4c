#include "sandbox/requests.h"

#include <stddef.h>

#include "proto/fields.h"
#include "proto/protocol.h"

static void add_text(struct buf *fields, enum tag tag, const char *text)
{
    if (text)
        fields_add_text(fields, (uint8_t)tag, text);
}

static void add_texts(struct buf *fields, enum tag tag, char *const *texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        fields_add_text(fields, (uint8_t)tag, texts[i]);
}

static void add_number(struct buf *fields, enum tag tag, uint64_t number)
{
    if (number)
        fields_add_number(fields, (uint8_t)tag, number);
}

static void add_optional(struct buf *fields, enum tag tag, const uint64_t *number)
{
    if (number)
        fields_add_number(fields, (uint8_t)tag, *number);
}

void run_request_fields(struct buf *fields, const struct run_request *request)
{
    add_text(fields, TAG_LANGUAGE, request->language);
    add_text(fields, TAG_CONTEXT, request->context);
    add_texts(fields, TAG_ENV, request->env);
    add_number(fields, TAG_TIMEOUT_MS, request->timeout_ms);
    add_optional(fields, TAG_OUTPUT_LIMIT, request->output_limit);
}

void exec_request_fields(struct buf *fields, const struct exec_request *request)
{
    add_texts(fields, TAG_ARG, request->argv);
    add_texts(fields, TAG_ENV, request->env);
    add_text(fields, TAG_CWD, request->cwd);
    add_text(fields, TAG_USER, request->user);
    add_number(fields, TAG_TIMEOUT_MS, request->timeout_ms);
    add_optional(fields, TAG_OUTPUT_LIMIT, request->output_limit);
    if (request->term) {
        fields_add_number(fields, TAG_PTY, 1);
        fields_add_text(fields, TAG_TERM, request->term);
        add_number(fields, TAG_ROWS, request->rows);
        add_number(fields, TAG_COLS, request->cols);
    }
    add_number(fields, TAG_KEEP, request->keep);
}

void file_request_fields(struct buf *fields, const struct file_request *request)
{
    add_text(fields, TAG_PATH, request->path);
    add_text(fields, TAG_TARGET, request->target);
    add_text(fields, TAG_CWD, request->cwd);
    add_text(fields, TAG_USER, request->user);
    add_number(fields, TAG_OFFSET, request->offset);
    add_optional(fields, TAG_LENGTH, request->length);
    if (request->mode)
        fields_add_number(fields, TAG_MODE, *request->mode);
    add_number(fields, TAG_APPEND, request->append);
    add_number(fields, TAG_PARENTS, request->parents);
    add_number(fields, TAG_RECURSIVE, request->recursive);
    add_number(fields, TAG_BENEATH, request->beneath);
    add_number(fields, TAG_DEPTH, request->depth);
    add_number(fields, TAG_LIMIT, request->limit);
    add_number(fields, TAG_TIMEOUT_MS, request->timeout_ms);
}

void context_request_fields(struct buf *fields, const struct context_request *request)
{
    add_text(fields, TAG_CONTEXT, request->id);
    add_text(fields, TAG_LANGUAGE, request->language);
    add_text(fields, TAG_CWD, request->cwd);
    add_texts(fields, TAG_ENV, request->env);
}

void process_request_fields(struct buf *fields, const struct process_request *request)
{
    fields_add_number(fields, TAG_PID, request->pid);
    add_number(fields, TAG_SIGNAL, request->signal);
    add_number(fields, TAG_CLOSE, request->close);
}

void port_request_fields(struct buf *fields, uint16_t port)
{
    fields_add_number(fields, TAG_PORT, port);
}
