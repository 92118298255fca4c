/* What a call was, for the log and the figures: http_request.record points to one. */
#pragma once

#include "server/rpc.h"

struct record {
    const struct rpc_method *method; /* NULL: none that there is */
    const char *tool;                /* a constant; NULL: it is no call of one */
    char namespace[64];              /* "": none, or all, or not allowed to the caller */
    char sandbox[64];
    enum rpc_code code; /* 0: no error */
    enum error_code error;
};

/* The request's, made when it has none. */
struct record *record_of(struct http_request *request);
/* Which sandbox it is about, once the caller may know of it; both may be "". */
void record_note(struct http_request *request, const char *namespace, const char *sandbox);
/* Of a request that is over: counts it, logs it, and forgets its record. */
void record_close(struct http_request *request);
