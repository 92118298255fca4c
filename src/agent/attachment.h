/*
 * A stream connected to a command: the one that started it, one that came later, or one that only
 * brings input. The first gets output straight from the pipes and slows the command down; the
 * others read what is remembered, each at its own pace, and miss what was forgotten meanwhile.
 */
#pragma once

#include "agent/connection.h"
#include "agent/input.h"
#include "agent/process.h"

enum attachment_kind {
    ATTACHMENT_STARTER,
    ATTACHMENT_VIEWER,
    ATTACHMENT_FEEDER, /* input only: ends when the command has taken all of it */
};

struct attachment {
    enum attachment_kind kind;
    struct stream *stream;
    struct process *process;
    struct input input;
    bool closes;       /* a feeder's: the command's stdin ends with it */
    uint64_t position; /* a viewer's: offset in the output where it reads on */
    uint64_t sent;     /* a viewer's: bytes it got */
    struct attachment *next;
};

/* Takes the stream over. */
struct attachment *attachment_add(struct process *process, struct stream *stream,
                                  enum attachment_kind kind);
/* Connects it to the command's stdin, as far as that is open. */
void attachment_open_input(struct attachment *attachment);
/* Ends the stream. */
void attachment_end(struct attachment *attachment, const struct outcome *outcome);
/* Sends what is new; of a command that has ended, streams that have got everything end. */
void attachment_advance_all(struct process *process);
/* The command's stdin is closed: input is thrown away from now on. */
void attachment_close_inputs(struct process *process);
