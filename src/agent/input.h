/*
 * What the other side sends to a command's stdin. Credit goes back as the command takes the
 * bytes: one that does not read stops the sender, one that has closed its stdin does not.
 */
#pragma once

#include <stdbool.h>

#include "agent/connection.h"
#include "agent/loop.h"

struct input {
    struct loop_watch watch; /* fd -1: closed, bytes are thrown away */
    struct stream *stream;
    bool terminal; /* its end is a control character, not a closed pipe */
    bool ending;
    struct buf waiting;
    size_t marks; /* bytes of waiting that are ours and give no credit back */
    bool broken;  /* the command does not read any more */
    /* Everything up to input_end was taken, or nothing will be any more. May be NULL; may free the
     * input. */
    void (*ended)(void *owner);
    void *owner;
};

/* Takes the descriptor over. */
void input_open(struct input *input, int fd, bool terminal, struct stream *stream);
void input_write(struct input *input, const uint8_t *bytes, size_t length);
void input_end(struct input *input);
/* Closes, throws away what waits and gives credit for it. */
void input_discard(struct input *input);
/* The same when the stream is gone. */
void input_close(struct input *input);
