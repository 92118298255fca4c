/*
 * Contexts: one live interpreter per language, whose variables persist between calls. Calls to
 * one context run one after the other. An interpreter that dies or has to be killed is replaced
 * by a fresh one at the next call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/connection.h"
#include "base/error.h"

#define CONTEXT_ENTROPY 32

struct context;

/* NULL: no such language; err says which there are. */
struct context *context_find(const char *language, struct error *err);
/* Walks all languages, running or not; NULL starts and ends the walk. */
struct context *context_next(const struct context *context);
bool context_is_running(const struct context *context);

/* How a call ended. */
struct context_outcome {
    const struct error *err; /* it could not be made at all; nothing else counts then */
    int exit_code;           /* 0 when the code went well */
    bool interrupted;        /* it was asked to stop, in time or not */
    bool died;               /* the interpreter ended, with this status */
    int status;
    bool out_of_memory; /* …because the kernel killed it for want of memory */
    char *killed; /* the process that it killed, perhaps another one of this call's; or NULL */
};

struct context_call {
    char kind; /* of the message to the driver */
    struct buf payload;
    struct stream *stream;      /* where output goes; NULL: nowhere */
    void (*begun)(void *owner); /* may be NULL */
    void (*ended)(void *owner, const struct context_outcome *outcome);
    void *owner;
    struct context_call *next;
};

/* Queues a call, which stays the caller's and must last until it has ended. */
void context_submit(struct context *context, struct context_call *call, bool warm);
/* Interrupts the call if it runs, and kills the interpreter if that does not help in time. */
void context_interrupt(struct context *context, struct context_call *call);
/* Takes a call that has not begun out of the queue; false when it has begun. */
bool context_withdraw(struct context *context, struct context_call *call);
/* The output of a running call goes elsewhere, or has room again. */
void context_redirect(struct context *context, struct context_call *call, struct stream *stream);

/* Writes the drivers to where the interpreters find them. */
int context_install(struct error *err);
