/* Installing packages in a running sandbox: the package manager runs there, as often as needed. */
#pragma once

#include "sandbox/client.h"
#include "sandbox/packages.h"

struct install {
    struct sandbox_client *client;
    struct client_call call;
    struct packages packages; /* what became of them, when it has ended */
    uint64_t timeout_ms;      /* for each attempt; 0: none */
    size_t reading;           /* the package whose version is read */
    struct buf lines[2];      /* stdout and stderr that are no whole line yet */
    struct buf contents;      /* of the file with a version */
    /* A line of progress, as the manager printed it. May be NULL. */
    void (*line)(struct install *install, const char *text);
    /* err->code is ERROR_NONE when every package has its state. */
    void (*ended)(struct install *install, const struct error *err);
    void *context;
};

/* The packages must be initialised; line, ended and context set. */
void install_start(struct install *install, struct sandbox_client *client);
/* Ends what runs; `ended` follows. */
void install_cancel(struct install *install);
void install_free(struct install *install);
