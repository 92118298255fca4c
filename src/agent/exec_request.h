/* The arguments of OP_EXEC and of the controls sent to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct exec_request {
    char **argv;
    char **env;
    char *cwd;
    char *user;
    uint64_t timeout_ms;
    bool pty;
    bool keep; /* goes on when its client leaves */
    uint16_t rows;
    uint16_t cols;
};

struct exec_control {
    uint64_t signal; /* 0: none */
    uint16_t rows;
    uint16_t cols;
    bool cancel;
    bool detach;
};

/* Fills in defaults; the request is to be freed also when this fails. */
int exec_request_parse(struct exec_request *request, const uint8_t *fields, uint32_t length,
                       struct error *err);
void exec_request_free(struct exec_request *request);
int exec_control_parse(struct exec_control *control, const uint8_t *fields, uint32_t length,
                       struct error *err);
