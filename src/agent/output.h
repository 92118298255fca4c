/*
 * A pipe or terminal whose bytes go out on a channel of a stream, as fast as credit comes in.
 * Without a stream they are thrown away, so that the writer is never stopped by us.
 */
#pragma once

#include <stdbool.h>

#include "agent/connection.h"
#include "agent/loop.h"

struct output {
    struct loop_watch watch; /* fd -1: at its end */
    enum channel channel;
    bool terminal;
    struct stream *stream;
    bool settling;
    size_t left; /* while settling: bytes still to be delivered */
    void (*settled)(void *owner);
    void *owner;
    /* Sees every byte that is read. May be NULL; must leave the output as it is. */
    void (*tap)(struct output *output, const uint8_t *bytes, size_t length);
    void *tap_owner;
};

/* Takes the descriptor over. */
void output_open(struct output *output, int fd, enum channel channel, bool terminal,
                 struct stream *stream);
/* The stream changed or has room again. */
void output_resume(struct output *output);
/*
 * Delivers what is in the pipe at this moment and then calls settled, possibly at once. What
 * others write later is not waited for.
 */
void output_settle(struct output *output, void (*settled)(void *owner), void *owner);
bool output_is_settled(const struct output *output);
/* Goes on after settling, for another stream or for none. */
void output_restart(struct output *output, struct stream *stream);
/* Forgets the stream; the pipe is emptied to nowhere until its last writer has gone. */
void output_abandon(struct output *output);

/*
 * The same for a pair (stdout, stderr) whose owner goes away when both are settled: settled may
 * free them, and neither is touched after that.
 */
void output_settle_both(struct output outputs[2], void (*settled)(void *owner), void *owner);
void output_resume_both(struct output outputs[2]);
