/* What the files that run something in a session share. */
#pragma once

#include "sandbox/collect.h"
#include "session/run.h"

struct session_run {
    struct sessions *sessions;
    struct session_lease lease;
    run_ended *ended; /* NULL: abandoned */
    void (*printed)(void *context, const uint8_t *bytes, size_t length);
    void *context;
    char *code, *language;
    char **argv, **env;
    uint64_t timeout_s;
    size_t output_max;
    bool wants_files;
    /* What comes back. */
    struct client_call call;
    struct collection records; /* of results only */
    struct buf streams[2];
    bool truncated[2];
    size_t taken;
    bool is_running, is_full;
    char run_id[48];
    /* The look at the files, before and after. */
    struct client_call changes;
    struct records change_records;
    json_t *files;
    bool is_watching, is_ready;
    struct outcome outcome; /* of the run, while the files are looked at */
};

/* run.c */
void run_begin(struct session_run *run, struct sandbox_client *client);
/* The sandbox has gone before that. */
void run_lose(struct session_run *run);
void run_finish(struct session_run *run);

/* run_files.c: looks at the data folder, calls run_begin when it has, and after the run
 * run_finish. */
void run_files_begin(struct session_run *run, struct sandbox_client *client);
void run_files_end(struct session_run *run);

/* run_result.c */
void run_report(struct session_run *run, const struct outcome *outcome);
