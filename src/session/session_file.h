/*
 * A file or a folder of a session, as a whole: for what fits into memory. Beside other calls of the
 * session. Streams go through session_acquire.
 */
#pragma once

#include "proto/protocol.h"
#include "session/sessions.h"

struct file_work {
    enum operation operation; /* OP_FILE_READ, WRITE, STAT, LIST, REMOVE */
    const char *path;         /* relative to the data folder, the sandbox's working folder */
    bool beneath;             /* of READ, STAT and LIST: nothing outside of it, and no links */
    const void *content;      /* of WRITE; folders on the way are made */
    size_t length;
    unsigned depth; /* of LIST: levels of folders; 0: one */
    bool partial;   /* of LIST: too many entries are cut, instead of an error */
    uint64_t max;   /* bytes of READ, entries of LIST; 0: 16 MB and 10000 */
};

/* Lasts for the call of `ended`. */
struct file_result {
    const void *content; /* of READ */
    size_t length;
    bool is_cut;
    json_t *entries; /* of STAT and LIST: records, as docs/agent-protocol.md has them */
};

/* Either the result or the failure is NULL. */
typedef void file_ended(void *context, const struct file_result *result,
                        const struct session_failure *failure);

struct session_file;

/* Copies what it is given. NULL: see the failure; `ended` is not called then. */
struct session_file *session_file_start(struct sessions *sessions,
                                        const struct session_request *request,
                                        const struct file_work *work, file_ended *ended,
                                        void *context, struct session_failure *failure);
/* Nobody waits for it any more: it is cancelled and `ended` is not called. */
void session_file_abandon(struct session_file *file);
