/* A command or a piece of code in a sandbox, with this process' terminal, pipes and exit code. */
#pragma once

#include "base/buf.h"
#include "base/timing.h"
#include "sandbox/client.h"

struct attach_request {
    enum operation operation; /* OP_EXEC, OP_RUN or OP_PROCESS_ATTACH */
    const struct buf *fields; /* its arguments */
    const char *input;        /* sent as its input; NULL: our stdin is */
    size_t input_length;
    /* It has a terminal: ours is set to raw meanwhile. What is joined tells by itself if it has. */
    bool terminal;
    uint64_t timeout_ms;   /* for the message when it is over */
    bool starting;         /* OP_START is under way on the connection */
    bool stop_afterwards;  /* the sandbox ends with it */
    bool await_removal;    /* …and is waited for until its name is free again */
    bool json;             /* prints the whole answer at its end, as JSON */
    bool verbose;          /* tells on stderr where it ran and how long it took */
    struct timing *timing; /* with the steps so far; tells all on stderr (NULL: does not) */
};

/* Takes ownership of the connection. Returns the exit code for our own process. */
int attach_run(int connection, const struct attach_request *request);

/* True when stdin and stdout are terminals. */
bool attach_has_terminal(void);
/* Adds what makes the command get a terminal like ours. */
void attach_describe_terminal(struct buf *fields);
