/*
 * The channel to an interpreter's driver: two pipes, the driver's descriptors 3 (commands) and
 * 4 (messages). Each message is a kind (u8), a length (u32, little endian) and that many bytes. In
 * commands all numbers are eight hexadecimal digits instead: a shell can read no other bytes.
 *
 *   to the driver
 *     r  run code: the length of the variables for this call, these as NAME=value…, each ended by
 *        NUL, then the code
 *     t  the same for TypeScript
 *     w  the same as a rehearsal: leave no trace
 *     a  adopt: 64 hexadecimal digits of entropy, then cwd (empty: stay), NAME=value… to set, NAME…
 *        to forget, each ended by NUL; done is 1 when cwd cannot be entered
 *     n  the same as a notice, to which there is no answer
 *     z  leave a zygote behind, connected by descriptor 5
 *     j  be the zygote for jails, connected by descriptor 5: user, group and groups with spaces
 *        between, NUL, then what copies are to rehearse, as with w
 *   from the driver
 *     o  bytes for stdout, e  for stderr (at most DRIVER_PIECE_MAX each)
 *     j  a record for the results channel
 *     d  done: u8, the exit code, 0 when all went well
 *
 * User code lives in the same process and can write to the channel: whatever does not fit the
 * rules is reported as broken, and the interpreter is replaced.
 */
#pragma once

#include <stdbool.h>

#include "agent/connection.h"
#include "agent/loop.h"

#define DRIVER_ENTROPY 32
#define DRIVER_PIECE_MAX (64u * 1024)
#define DRIVER_RECORD_MAX (64u * 1024 * 1024)

struct driver_events {
    void (*done)(void *owner, int exit_code);
    void (*broken)(void *owner, const char *why);
    /* After driver_settle: everything that was sent is delivered. */
    void (*settled)(void *owner);
};

struct driver {
    struct loop_watch commands;
    struct loop_watch messages;
    struct buf sending;
    struct buf received;
    uint32_t record_left;  /* of a record that is being passed on */
    bool dropping;         /* …or not: there were too many */
    struct stream *stream; /* NULL: output is thrown away */
    bool settling;
    bool ended;
    const struct driver_events *events;
    void *owner;
};

/* Appends a number, or bytes, as commands have them. */
void driver_put_number(struct buf *out, uint32_t number);
void driver_put_entropy(struct buf *out, const uint8_t entropy[DRIVER_ENTROPY]);

/* Takes the descriptors over. */
void driver_open(struct driver *driver, int commands, int messages,
                 const struct driver_events *events, void *owner);
void driver_close(struct driver *driver);
void driver_send(struct driver *driver, char kind, const void *bytes, size_t length);
/* The stream changed or has room again. */
void driver_resume(struct driver *driver);
/* The driver's process has ended: deliver what it left behind, then call settled. */
void driver_settle(struct driver *driver);
