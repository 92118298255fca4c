/*
 * Contexts: live interpreters whose variables persist between calls. Each language has one that is
 * made at its first use and named after it; others are made on request. Calls to one context run
 * one after the other, different contexts run side by side. An interpreter that dies or has to be
 * killed is replaced by a fresh one at the next call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/connection.h"
#include "agent/language.h"
#include "base/error.h"

#define CONTEXTS_MAX 64

struct context;

/* How a call ended. */
struct context_outcome {
    const struct error *err; /* it could not be made at all; nothing else counts then */
    int exit_code;           /* 0 when the code went well */
    bool cancelled;          /* the context was restarted or removed */
    bool lost;               /* the variables of earlier calls were gone before it began */
    bool died;               /* the interpreter ended, with this status */
    int status;
    bool out_of_memory; /* …because the kernel killed it for want of memory */
    char *killed;   /* the process that it killed, perhaps another one of this call's; or NULL */
    uint64_t count; /* calls to run code since the interpreter started, this one included */
};

struct context_call {
    char kind; /* of the message to the driver; 0: only wait until the interpreter is up */
    struct buf payload;
    struct stream *stream;      /* where output goes; NULL: nowhere */
    void (*begun)(void *owner); /* may be NULL */
    void (*ended)(void *owner, const struct context_outcome *outcome);
    void *owner;
    struct context_call *next;
};

/* What a context is made of; the texts are copied. */
struct context_request {
    const struct language *language;
    char kind;        /* what its code is, unless a call says otherwise: see language_find */
    const char *id;   /* NULL: one is made up */
    const char *cwd;  /* NULL: the sandbox's */
    char *const *env; /* on top of the sandbox's */
};

struct context *context_make(const struct context_request *request, struct error *err);
/* The one with this id. */
struct context *context_find(const char *id, struct error *err);
/* The first one of a language, which is made if need be. */
struct context *context_default(const struct language *language, struct error *err);
/* Walks all; NULL starts and ends the walk. */
struct context *context_next(const struct context *context);

const struct language *context_language(const struct context *context);
char context_kind(const struct context *context);
/* Its interpreter, if it has one, hears that before the next call. */
void context_tell(struct context *context, const struct buf *notice);
/* Appends it as a JSON object. */
void context_describe(const struct context *context, struct buf *out);

/* The interpreter, if it has yet to start, loads all that code is likely to need; false if not. */
bool context_warm(struct context *context);
/* Queues a call, which stays the caller's and must last until it has ended. */
void context_submit(struct context *context, struct context_call *call);
/* Interrupts the call if it runs, and kills the interpreter if that does not help in time. */
void context_interrupt(struct context *context, const struct context_call *call);
/* Takes a call that has not begun out of the queue; false when it has begun. */
bool context_withdraw(struct context *context, const struct context_call *call);
/* The output of a running call goes elsewhere, or has room again. */
void context_redirect(struct context *context, struct context_call *call, struct stream *stream);
/* Kills everything in it and starts anew. The running call is cancelled, `call` comes next, then
 * those that wait. */
void context_restart(struct context *context, struct context_call *call);
/* Kills everything in it, cancels its calls and forgets it. */
void context_remove(struct context *context);
