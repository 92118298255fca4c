/* From a folder to the one file that machines and jails mount. */
#pragma once

#include "base/error.h"

/* ERROR_MISSING, with what to install, when the host lacks a program or a user namespace. */
int pack_check_tools(struct error *err);
/* The program for pack_root and its arguments, for who runs it in its own way; for strv_free. */
char **pack_command(const char *root, const char *blob, const char *emptied);
/* What its environment needs: it changes times after this one only, so it comes after any. */
#define PACK_ENVIRONMENT "SOURCE_DATE_EPOCH=4102444800"
/* Below the folders `emptied` ("dev|proc") is nothing: each sandbox mounts something there. */
int pack_root(const char *root, const char *blob, const char *emptied, struct error *err);
