/* The arguments of the file operations. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define FILE_LIST_MAX 100000u
#define FILE_DEPTH_MAX 64u

struct file_request {
    uint8_t operation;
    char *path;
    char *target; /* of RENAME and COPY, else NULL */
    char *cwd;
    char *user;
    uint64_t offset;
    uint64_t length; /* UINT64_MAX: to the end */
    bool has_mode;
    mode_t mode;
    bool append;
    bool parents;
    bool recursive;
    bool beneath;        /* of READ, STAT and LIST: nothing outside the working folder */
    uint64_t depth;      /* at most FILE_DEPTH_MAX */
    uint64_t limit;      /* at most FILE_LIST_MAX */
    uint64_t timeout_ms; /* 0: none */
};

/* Fills in defaults; the request is to be freed also when this fails. */
int file_request_parse(struct file_request *request, uint8_t operation, const uint8_t *fields,
                       uint32_t length, struct error *err);
void file_request_free(struct file_request *request);
