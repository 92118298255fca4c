/* From a folder to the one file that machines and jails mount. */
#pragma once

#include "base/error.h"

/* ERROR_MISSING, with what to install, when the host lacks a program or a user namespace. */
int pack_check_tools(struct error *err);
/* Below the folders `emptied` ("dev|proc") is nothing: each sandbox mounts something there. */
int pack_root(const char *root, const char *blob, const char *emptied, struct error *err);
