/*
 * Everything that can go wrong with a session, in one family: each kind has an error code, a
 * category, a severity, a short code, an HTTP status and suggestions, all in one table. A failure
 * holds no memory of its own and can be copied.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

#define SESSION_ID_MAX 64

enum failure_kind {
    FAILURE_NONE = 0,
    FAILURE_GENERAL,  /* anything that has no kind of its own */
    FAILURE_CREATION, /* the sandbox could not be started */
    FAILURE_CODE,     /* detail: compilation, runtime, timeout, memory */
    FAILURE_COMMAND,  /* detail: not_found, not_executable, timeout, memory */
    FAILURE_RESOURCE, /* detail: sessions, memory */
    FAILURE_NO_SESSION,
    FAILURE_BUSY,          /* another call has it */
    FAILURE_CONFIGURATION, /* a setting is wrong */
    FAILURE_CONNECTION,    /* the sandbox went away or cannot be reached */
    FAILURE_REQUEST, /* detail: session_id, path, content, filename, code_size, exists, or NULL */
    FAILURE_DENIED,  /* not with this key */
    FAILURE_NO_FILE,
    FAILURE_FILE_TOO_LARGE,
    FAILURE_UPLOAD_TOO_LARGE,
    FAILURE_KINDS,
};

struct session_failure {
    enum failure_kind kind;
    const char *detail; /* a constant, or NULL */
    struct error cause;
    /* What is known about it, by kind. */
    char session_id[SESSION_ID_MAX + 1];
    char subject[201]; /* the code, command, template, setting or path it is about */
    const char *flavor;
    uint64_t current, limit;
    int exit_code;
};

/* Fills it and returns -1; the cause is to follow or is there already. */
int failure_set(struct session_failure *failure, enum failure_kind kind, const char *detail,
                const char *session_id);
/* The same with a cause, and with the kind that fits that if `kind` is FAILURE_NONE. */
int failure_wrap(struct session_failure *failure, enum failure_kind kind, const char *detail,
                 const char *session_id, const struct error *cause);
int failure_no_session(struct session_failure *failure, const char *session_id);
void failure_set_subject(struct session_failure *failure, const char *text);

/* {"error_code", "category", "severity", "message", "context", "recovery_suggestions",
 * "original_error", "code"}, for json_decref. */
json_t *failure_json(const struct session_failure *failure);
/* "session_busy", "max_sessions", …: constants. */
const char *failure_short_code(const struct session_failure *failure);
int failure_http_status(const struct session_failure *failure);
