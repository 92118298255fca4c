/* Shared by the files of attach_run only. */
#pragma once

#include <jansson.h>
#include <termios.h>
#include <uv.h>

#include "cli/attach.h"
#include "proto/outcome.h"
#include "sandbox/client.h"
#include "sandbox/collect.h"
#include "sandbox/records.h"

#define ATTACH_PIECE 65536

struct attachment {
    const struct attach_request *request;
    uv_loop_t loop;
    struct sandbox_client client;
    struct client_call start, work, stop;
    struct records records;
    struct collection answer; /* with json */
    uv_fs_t read;
    char piece[1 + ATTACH_PIECE]; /* the first byte is for one that was held back */
    bool holds_key;               /* a Ctrl-P that may begin the keys to leave with */
    bool reading;                 /* a read of stdin is under way */
    bool has_fed;                 /* some of it was sent */
    bool input_ended;
    uint64_t shown;  /* bytes of output */
    int write_error; /* why our own output failed */
    bool working;
    bool interrupted; /* one Ctrl-C was passed on already */
    bool stopping;    /* the sandbox was told to end; that takes STOP_MS at most */
    uv_signal_t signals[4];
    uv_timer_t patience;
    struct termios before;
    bool raw;
    int exit_code;
    uint64_t began, ready, first_output, done;
    uint64_t joined_at; /* bytes the command had printed before what we get */
    char place[256];    /* where it ran, for --verbose */
    json_t *steps;      /* of the start, as its keeper tells them; for --timing */
};

/* Whether it is a command that somebody else has started. */
bool attach_joins(const struct attachment *a);

/* attach_terminal.c */
void attach_set_raw(struct attachment *a);
void attach_restore_terminal(struct attachment *a);
/* The terminal inside gets the size of ours. */
void attach_adopt_size(struct attachment *a);

/* attach_input.c: reads on where the other side has room. */
void attach_feed(struct attachment *a);

/* attach_output.c */
void attach_on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length);
/* Tells what there is to tell of the outcome. */
void attach_conclude(struct attachment *a, const struct outcome *outcome);
/* The exit code; says why where that is not plain. */
int attach_judge(struct attachment *a, const struct outcome *outcome);
/* With --verbose: where it ran, and how long everything took. */
void attach_tell_place(const struct attachment *a);

/* attach_timing.c: with --timing, where the time went. */
void attach_tell_timing(const struct attachment *a);
