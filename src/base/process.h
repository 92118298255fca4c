/*
 * Runs a helper program (mmdebstrap, mkfs.erofs, …) to its end. The program and everything it
 * starts die with the call, whatever happens: on cancel, and when we are killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct process_options {
    const char *folder;  /* working folder; NULL: ours */
    char *const *env;    /* NULL: ours */
    struct buf *output;  /* collects stdout; NULL: it goes where stderr goes */
    bool show_lines;     /* each line of stderr becomes the progress detail */
    bool private_mounts; /* its mounts are its own and vanish with it (needs root) */
    int user_space;      /* a user namespace whose root it is to be; 0: it runs as we do */
    const void *input;   /* what it reads on stdin; NULL: nothing */
    size_t input_length;
    int stdin_fd;  /* read instead of the input; 0: none */
    int stdout_fd; /* written to instead of the output; 0: none */
};

/*
 * 0 when it exits with 0. Otherwise an error with the last lines of what it wrote to stderr;
 * ERROR_MISSING when there is no such program, ERROR_CANCELLED after cancel_fd.
 */
int process_run(char *const *argv, const struct process_options *options, struct error *err);

/* The program's path as found in PATH; NULL when it is not installed. Owned by the caller. */
char *process_find(const char *program);
