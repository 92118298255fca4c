/* A call of a tool that is about a file of a session, or about its folder. */
#pragma once

#include "server/tools/internal.h"
#include "server/tools/pictures.h"
#include "session/session_file.h"

struct file_call {
    struct mcp_call *call;
    struct session_file *file; /* that is worked on */
    char namespace[64];
    char *session, *path;
    struct buf content; /* to be written */
    uint64_t offset;    /* of what is told */
    bool is_raw;        /* bytes are wanted, whatever they are */
    struct pictures pictures;
    bool is_showing;
};

/* NULL: the call is answered. */
struct file_call *file_call_begin(struct mcp_call *call, const json_t *arguments,
                                  bool needs_session);
/* One step; when it cannot be taken, the call is answered. */
void file_call_start(struct file_call *work, enum operation operation, bool must_exist,
                     file_ended *ended);
/* Takes the answer; the work is gone. */
void file_call_end(struct file_call *work, json_t *answer);
void file_call_refuse(struct file_call *work, enum failure_kind kind, const char *detail,
                      const char *what, const char *remedy);
/* Where its files are. */
struct file_place file_call_place(const struct file_call *work);
