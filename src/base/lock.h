/* A lock that long work waits for: says so as progress, and Ctrl-C ends the waiting. */
#pragma once

#include "base/error.h"

/*
 * Like file_lock with wait == true, but ERROR_CANCELLED after cancel_fd. `work` says what the
 * holder is doing ("builds the image x"). Must be called between steps of progress.
 */
int lock_wait(const char *path, const char *work, struct error *err);
