/*
 * JSON-RPC 2.0 on POST /api/v1/rpc. methods.c has the table of methods. A method answers its call
 * exactly once, at once or later, unless the client leaves: then `left` is called, and the call
 * does not exist any more when it returns.
 */
#pragma once

#include <jansson.h>

#include "proto/outcome.h"
#include "server/context.h"
#include "server/http/http.h"
#include "server/lines.h"

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_NO_METHOD = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_AUTHENTICATION = -32002,
    RPC_NO_SANDBOX = -32004,
    RPC_EXISTS = -32005,
};

/* One parameter, or one member of an object that is one. */
struct rpc_param {
    const char *name;
    enum rpc_type { RPC_TEXT, RPC_NUMBER, RPC_FLAG, RPC_TEXTS, RPC_OBJECT } type;
    bool is_required;
    const char *about;
    const struct rpc_param *members; /* of an object, ends with a NULL name */
};

enum rpc_scope {
    RPC_ONE,    /* "sandbox" names one, in "namespace" or the default one */
    RPC_MANY,   /* "sandbox" may be left out, "namespace" may be "*" */
    RPC_SPACE,  /* "namespace" alone, or the default one */
    RPC_SPACES, /* the same, and it may be "*" */
    RPC_ALL,    /* the whole server: wants a key for all namespaces */
    RPC_NONE,   /* has nothing to do with sandboxes */
};

struct rpc_call;

struct rpc_method {
    const char *name;
    void (*run)(struct rpc_call *call);
    enum rpc_scope scope;
    const struct rpc_param *params; /* beside "sandbox" and "namespace"; NULL: none */
    const char *about;
    const char *result;
};

/* methods.c: all of them, ends with a NULL name. */
extern const struct rpc_method rpc_methods[];
/* Whether the parameters have the types of the table. */
int rpc_check_params(const struct rpc_param *params, const json_t *given, struct error *err);
/* A small number for each code. */
size_t rpc_code_index(enum rpc_code code);
extern const enum rpc_code rpc_codes[]; /* by that number, ends with 0 */

/* Somebody within the server who calls a method. */
struct rpc_asker {
    /* Takes {"result": …} or {"error": {"code", "message", "data"}}; maybe before rpc_run_within
     * returns. */
    void (*answered)(struct rpc_asker *asker, json_t *message);
    /* What it prints, as it comes; may be NULL. */
    void (*printed)(struct rpc_asker *asker, const uint8_t *bytes, size_t length);
    struct rpc_call *call; /* NULL when it was answered */
};

struct rpc_call {
    struct server *server;
    struct http_request *request; /* NULL: there is an asker instead */
    struct rpc_asker *asker;
    const char *scope; /* what the caller may touch */
    json_t *body;      /* the whole request; params and id are in it */
    const json_t *params;
    const char *namespace, *name; /* of the sandbox, checked; the name is NULL where it may be */
    bool is_alias;                /* came on /api/v1/sandbox/…: wants "message" too */
    void *context;
    void (*left)(struct rpc_call *call);
};

void rpc_handle(struct http_request *request);
/* POST /api/v1/sandbox/start and others: the method follows from the path. */
void rpc_handle_alias(struct http_request *request);

/* For methods that answer with one message. `params` is an object, and shared; scope and asker must
 * last until the answer. */
void rpc_run_within(struct server *server, const char *scope, const char *method, json_t *params,
                    struct rpc_asker *asker);
/* Nobody waits for it any more: it is left as by a client. */
void rpc_abandon(struct rpc_asker *asker);

/* Takes the result. */
void rpc_succeed(struct rpc_call *call, json_t *result);
/* The same with "output", the lines that were printed. */
void rpc_succeed_with(struct rpc_call *call, json_t *result, const struct lines *lines);
/* With the code that fits the error: RPC_INVALID_PARAMS or RPC_INTERNAL. */
void rpc_fail(struct rpc_call *call, const struct error *err);
void rpc_fail_as(struct rpc_call *call, enum rpc_code code, const struct error *err);
/* The same with data of its own, which it takes. */
void rpc_fail_data(struct rpc_call *call, enum rpc_code code, const char *message, json_t *data);
/* Before there is a call. */
void rpc_refuse(struct http_request *request, enum rpc_code code, const struct error *err);
/* For a method that answers on the request itself: nothing is left of the call but that, and `gone`
 * is to be set anew. */
struct http_request *rpc_release(struct rpc_call *call);
/* The call's sandbox. NULL: the call has failed. */
struct box *rpc_box(struct rpc_call *call);

/* Parameters. A value that is absent or null is left as it is; one of a wrong type is an error. */
int rpc_text(const struct rpc_call *call, const char *key, const char **value, struct error *err);
int rpc_need_text(const struct rpc_call *call, const char *key, const char **value,
                  struct error *err);
int rpc_number(const struct rpc_call *call, const char *key, uint64_t high, uint64_t *value,
               struct error *err);
int rpc_member_number(const json_t *object, const char *key, uint64_t high, uint64_t *value,
                      struct error *err);
int rpc_member_text(const json_t *object, const char *key, const char **value, struct error *err);
int rpc_member_flag(const json_t *object, const char *key, bool *value, struct error *err);
int rpc_flag(const struct rpc_call *call, const char *key, bool *value, struct error *err);
/* A list of texts that borrows them, for free(). */
int rpc_texts(const json_t *object, const char *key, char ***texts, struct error *err);

/* start_config.c: what sandbox.start was asked for, if the server allows it. */
int start_config_fill(struct sandbox_config *config, const struct rpc_call *call,
                      const json_t *settings, struct error *err);

/* The methods, by the file that has them. */
/* method_life.c */
void method_start(struct rpc_call *call);
void method_stop(struct rpc_call *call);
void method_pause(struct rpc_call *call);
void method_resume(struct rpc_call *call);
/* method_fork.c */
void method_fork(struct rpc_call *call);
/* method_list.c */
void method_list(struct rpc_call *call);
void method_metrics(struct rpc_call *call);
/* method_run.c */
void method_repl_run(struct rpc_call *call);
void method_repl_stream(struct rpc_call *call);
void method_command_run(struct rpc_call *call);
/* openrpc.c */
void method_discover(struct rpc_call *call);
void openrpc_handle(struct http_request *request);
/* method_file.c */
void method_file_read(struct rpc_call *call);
void method_file_write(struct rpc_call *call);
void method_file_list(struct rpc_call *call);
void method_file_remove(struct rpc_call *call);
/* method_session.c */
/* Answers as methods of sessions do. */
void session_refuse(struct rpc_call *call, const struct error *err);
void method_session_start(struct rpc_call *call);
void method_session_run_code(struct rpc_call *call);
void method_session_run_command(struct rpc_call *call);
void method_session_stop(struct rpc_call *call);
void method_session_get(struct rpc_call *call);
void method_session_list(struct rpc_call *call);
void method_session_touch(struct rpc_call *call);
void method_session_statistics(struct rpc_call *call);
void method_session_volumes(struct rpc_call *call);
/* method_tasks.c */
void method_tasks_pause(struct rpc_call *call);
void method_tasks_resume(struct rpc_call *call);
void method_tasks_restart(struct rpc_call *call);
void method_tasks_status(struct rpc_call *call);
void method_tasks_health(struct rpc_call *call);
void method_orphans_clean(struct rpc_call *call);
void method_session_shutdown(struct rpc_call *call);
