/* What requests about sessions have in common, whatever protocol they come in. */
#pragma once

#include <jansson.h>

#include "session/run.h"

/* The parameters of a request, read from a JSON object that they borrow from. */
struct session_params {
    struct session_request request;
    struct run_work work;
    char **volumes, **env, **args; /* for free() */
};

/* template, flavor, session_id, timeout and so on. Free it also on failure. */
int session_params_read(struct session_params *params, const json_t *object,
                        struct session_failure *failure);
void session_params_free(struct session_params *params);
