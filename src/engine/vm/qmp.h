/*
 * QEMU's control protocol, blocking: one command, one answer, each within a few seconds. Speaks on
 * an already connected descriptor.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct qmp {
    int fd;
    unsigned unanswered; /* commands issued by qmp_open and qmp_send */
    bool is_begun;       /* all of a command but its end was said */
    struct buf in;
};

/*
 * Owns fd from here on. Enters command mode and issues `commands` (JSON lines, may be NULL) right
 * away, before QEMU even listens: qmp_settle sees later how that went.
 */
int qmp_open(struct qmp *qmp, int fd, const char *commands, struct error *err);
/* The same for a QEMU that is in command mode already. */
void qmp_continue(struct qmp *qmp, int fd);
/* Reads the greeting and the answers to everything that is unanswered. */
int qmp_settle(struct qmp *qmp, int timeout_ms, struct error *err);
void qmp_close(struct qmp *qmp);

/* `arguments` is a JSON object or NULL; `fd` travels with the command when not -1. */
int qmp_command(struct qmp *qmp, const char *name, const char *arguments, int fd, int timeout_ms,
                struct error *err);
/* Only issues it, for qmp_settle to see how that went. */
int qmp_send(struct qmp *qmp, const char *name, const char *arguments, int fd, struct error *err);
/* Says all of a command but its end, since QEMU takes a while to read one: byte by byte. The next
 * qmp_send is to be of the same command, without arguments. */
int qmp_begin(struct qmp *qmp, const char *name, struct error *err);
/* Waits for a migration to be completed; needs the events capability. */
int qmp_wait_migration(struct qmp *qmp, int timeout_ms, struct error *err);
