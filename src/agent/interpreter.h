/*
 * An interpreter: the process of a context with its driver, its pipes and its scope. It makes one
 * call at a time. It starts as a program, or where possible a spare of the zygote becomes it;
 * either way it is up when its driver has answered a first message.
 */
#pragma once

#include <stdbool.h>

#include "agent/driver.h"
#include "agent/language.h"
#include "agent/output.h"
#include "agent/scope.h"
#include "agent/zygote.h"

/* `failed` and `died` are the end of it: the owner may start it again, or free it. */
struct interpreter_events {
    void (*up)(void *owner);
    void (*failed)(void *owner, const struct error *err);
    /* The call is over, and everything it printed is delivered. */
    void (*done)(void *owner, int exit_code);
    void (*died)(void *owner, int status);
};

enum interpreter_phase {
    INTERPRETER_NONE,
    INTERPRETER_WAITING, /* for a spare of the zygote */
    INTERPRETER_STARTED, /* waits for the driver's first answer */
    INTERPRETER_IDLE,
    INTERPRETER_BUSY,
    INTERPRETER_DEAD, /* delivers what is left of its output */
};

struct interpreter {
    const struct language *language;
    char *const *env; /* on top of the sandbox's; the owner's */
    char *wanted_cwd; /* NULL: chosen at the start; the owner's */
    bool warm;        /* load what code is likely to need, and get ready to leave a zygote behind */
    const struct interpreter_events *events;
    void *owner;

    enum interpreter_phase phase;
    char *cwd;  /* where it started */
    pid_t pid;  /* 0: none */
    int report; /* of the start of a program; -1: it was a spare */
    struct zygote_waiter waiter;
    bool no_spare; /* the last one was dead */
    struct scope *scope;
    struct loop_child child;
    struct driver driver;
    struct output outputs[2];
    struct loop_timer timer;
    struct loop_timer notice; /* armed: earlier is out of date */
    struct buf earlier;       /* processes that earlier calls have left running */
    int exit_code;
    int status;
    bool out_of_memory; /* as in struct context_outcome, for `done` and `died` */
    char *killed;
};

/* Only in phase NONE. */
int interpreter_start(struct interpreter *interpreter, struct error *err);
/* Only in phase IDLE. Output goes to the stream; NULL: nowhere. */
void interpreter_call(struct interpreter *interpreter, struct stream *stream, char kind,
                      const struct buf *payload);
/* Tells it something, 'n' of driver.h, before whatever is called next. In any phase with a pid. */
void interpreter_tell(struct interpreter *interpreter, const struct buf *notice);
/* The output of the call goes elsewhere, or has room again; this may be the end of the call. */
void interpreter_redirect(struct interpreter *interpreter, struct stream *stream);
/* Interrupts the call, and kills everything if that does not help in time. */
void interpreter_interrupt(struct interpreter *interpreter);
/* Kills everything and forgets it, without any event. */
void interpreter_kill(struct interpreter *interpreter);
