/*
 * Requests on /api/v1/sessions/{session_id}/sandbox/…: what they have in common. A request's work
 * is answered exactly once, unless the client leaves: then `left` is called, and the work does not
 * exist any more when it returns.
 */
#pragma once

#include "server/context.h"
#include "server/session_params.h"

struct rest {
    struct http_request *request;
    struct server *server;
    char *namespace, *id;
    json_t *body; /* an object, perhaps an empty one */
    struct session_params params;
    uint64_t began; /* in milliseconds since boot */
    void *context;
    void (*left)(struct rest *rest);
};

/* Reads path, query and body. NULL: the request is answered. */
struct rest *rest_begin(struct http_request *request);
/* Takes the answer. */
void rest_answer(struct rest *rest, json_t *answer);
void rest_fail(struct rest *rest, const struct session_failure *failure);

/* Before there is anything. */
void rest_refuse(struct http_request *request, const struct session_failure *failure);
/* How long sessions may last that are made here and say nothing themselves. */
uint64_t rest_lifetime(const struct server *server);
/* The namespace that a request is about, for free(): that of the query, of the key, or the default.
 * NULL: see the failure. */
char *rest_namespace(const struct http_request *request, struct session_failure *failure);

/* session_rest.c */
void session_rest_start(struct http_request *request);
void session_rest_stop(struct http_request *request);
void session_rest_status(struct http_request *request);
void session_rest_install(struct http_request *request);
/* session_execute.c */
void session_rest_execute(struct http_request *request);
/* session_files.c */
void session_rest_download(struct http_request *request);
void session_rest_files(struct http_request *request);
void artifacts_get(struct http_request *request);
/* openapi.c */
void openapi_get(struct http_request *request);
/* session_upload.c */
void session_rest_upload(struct http_request *request);
