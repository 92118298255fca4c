/*
 * Ctrl-C for work that blocks. After cancel_install, SIGINT, SIGTERM and SIGHUP do not end the
 * process: they make cancel_fd readable, and long work stops at its next wait, cleans up and
 * returns ERROR_CANCELLED. Without cancel_install, cancel_fd is -1 (poll ignores that).
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

void cancel_install(void);
/* In a forked child that has closed what it inherited: as if nothing were installed. */
void cancel_forget(void);
/* Cancels also when the other end of this socket is gone; -1 takes that back. */
void cancel_with_peer(int socket);
int cancel_fd(void);
bool cancel_requested(void);
/* The error that cancelled work returns. */
int cancel_error(struct error *err);
/* The signal that asked, for the exit code 128+n; 0 when none did. */
int cancel_signal(void);
