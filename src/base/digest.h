/* SHA-256, as 64 hex digits and a NUL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

void digest_bytes(const void *bytes, size_t length, char hex[65]);
/* Ends with ERROR_CANCELLED after cancel_fd; moves the progress along. */
int digest_file(const char *path, char hex[65], struct error *err);
/* True for "sha256:" and 64 hex digits in lower case. */
bool digest_is_valid(const char *text);
