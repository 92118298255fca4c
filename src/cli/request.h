/* From options to an operation: what `msb exe` and `msb exec` have in common. */
#pragma once

#include "cli/attach.h"

struct work_options {
    const char *code;
    const char *context; /* id of the interpreter for it; NULL: the first one */
    const char *workdir;
    const char *user;
    char **env;
    uint64_t timeout_ms;
    uint64_t output_limit; /* 0: none */
    bool no_terminal;
    bool json;
    bool background; /* it goes on by itself */
};

struct work {
    struct attach_request attach;
    struct buf fields;
    struct buf code;
};

/*
 * `command` is what was asked for, NULL or empty for `fallback` (may be NULL too). `language` is
 * that of code; it may be NULL when there is a context.
 */
int work_build(struct work *work, const struct work_options *options, char *const *command,
               char *const *fallback, const char *language, struct error *err);
void work_free(struct work *work);
