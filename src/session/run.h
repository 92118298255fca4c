/*
 * Code or a command in a session, in one call: the session is made if need be, waited for and used,
 * and the answer is given as a whole, within limits.
 */
#pragma once

#include "session/sessions.h"

/* What an answer tells of stdout, and of stderr, when nothing else is said. */
#define RUN_OUTPUT_DEFAULT (1u << 20)

/* With neither code nor command the session is made, and found to be alive. */
struct run_work {
    const char *code;     /* runs in the session's live interpreter */
    const char *language; /* of the code, when it is not the session's */
    char *const *argv;    /* or a command, in its working folder */
    char *const *env;     /* NAME=value, for this call */
    uint64_t timeout_s;   /* 0: as the settings say */
    size_t output_max;    /* bytes of each stream; 0: RUN_OUTPUT_DEFAULT */
    /* What it prints, as it comes, with the context of `ended`; may be NULL. */
    void (*printed)(void *context, const uint8_t *bytes, size_t length);
    bool files; /* tell which files of the data folder are new or changed */
};

/* Lasts for the call of `ended`. */
struct run_result {
    const char *session_id, *template, *language;
    bool session_created;
    const char *run_id;    /* run_20260131T120000Z_1a2b */
    const char *out, *err; /* valid UTF-8; values of last expressions and tracebacks too */
    bool out_truncated, err_truncated;
    const json_t *results; /* records in all their forms, see docs/contexts.md */
    const json_t *error;   /* of code that raised one: name, value, traceback; or NULL */
    const json_t *files;   /* records as of FILE_CHANGES with paths below the data folder */
    bool success, timed_out, out_of_memory, state_lost;
    int exit_code; /* of code: 0, or 1 when it failed; -1 after a timeout */
    uint64_t duration_us;
};

struct session_run;

/*
 * `result` is NULL when it could not be run. `failure` is NULL unless something failed that is not
 * the code's own doing; after a timeout and when memory ran out there are both.
 */
typedef void run_ended(void *context, const struct run_result *result,
                       const struct session_failure *failure);

/* Copies what it is given. NULL: see the failure; `ended` is not called then. */
struct session_run *session_run_start(struct sessions *sessions,
                                      const struct session_request *request,
                                      const struct run_work *work, run_ended *ended, void *context,
                                      struct session_failure *failure);
/* Nobody waits for it any more: it is cancelled and `ended` is not called. */
void session_run_abandon(struct session_run *run);

/* {"session_id", "stdout", "stderr", "success", "exit_code", "execution_time_ms",
 * "session_created", "template", …}, for json_decref. */
json_t *run_result_json(const struct run_result *result);
