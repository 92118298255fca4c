/*
 * The arguments of every operation, from plain values to the fields that call_start sends. NULL and
 * 0 mean: not given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* OP_RUN; the code is the call's input. */
struct run_request {
    const char *language; /* may be left out when there is a context */
    const char *context;  /* id */
    char *const *env;     /* NAME=value, for this call only */
    uint64_t timeout_ms;
    const uint64_t *output_limit; /* NULL: that of the sandbox; 0: none */
};

/* OP_EXEC */
struct exec_request {
    char *const *argv;
    char *const *env;
    const char *cwd;
    const char *user;
    uint64_t timeout_ms;
    const uint64_t *output_limit;
    const char *term; /* a terminal of this kind; NULL: pipes */
    unsigned rows, cols;
    bool keep; /* goes on when its client leaves */
};

/* OP_FILE_…; each operation has its own, see docs/agent-protocol.md */
struct file_request {
    const char *path;
    const char *target;
    const char *cwd;
    const char *user;
    uint64_t offset;
    const uint64_t *length; /* NULL: to the end */
    const unsigned *mode;
    bool append, parents, recursive;
    bool beneath; /* the path must lie below the working folder, whatever links say */
    unsigned depth;
    uint64_t limit;
    uint64_t timeout_ms;
};

/* OP_CONTEXT_… */
struct context_request {
    const char *id;
    const char *language;
    const char *cwd;
    char *const *env;
};

/* OP_PROCESS_… */
struct process_request {
    uint64_t pid;
    unsigned signal;
    bool close; /* stdin, after the input */
};

void run_request_fields(struct buf *fields, const struct run_request *request);
void exec_request_fields(struct buf *fields, const struct exec_request *request);
void file_request_fields(struct buf *fields, const struct file_request *request);
void context_request_fields(struct buf *fields, const struct context_request *request);
void process_request_fields(struct buf *fields, const struct process_request *request);
/* OP_CONNECT */
void port_request_fields(struct buf *fields, uint16_t port);
