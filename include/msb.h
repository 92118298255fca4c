/*
 * libmsb: a client of an msb server, for C. Every call blocks until its answer is there; streaming
 * forms call back while it comes. Handles may be used by several threads at once; there is no
 * global state. Strings are UTF-8 and belong to the handle they come from.
 *
 *     struct msb_error err;
 *     struct msb_client *client = msb_connect(NULL, NULL, &err);
 *     struct msb_sandbox *sandbox = msb_start(client, NULL, &err);
 *     struct msb_result *result = msb_run(sandbox, "print(6 * 7)", 0, &err);
 *     fputs(msb_result_stdout(result), stdout);
 *     msb_result_free(result);
 *     msb_stop(sandbox, &err);
 *     msb_sandbox_free(sandbox);
 *     msb_disconnect(client);
 *
 * Functions that return a pointer return NULL on failure, others a negative number; `err` then says
 * why. Code that fails is no failure of the call: see msb_result_succeeded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct msb_client;
struct msb_sandbox;
struct msb_result;

struct msb_error {
    char code[32];     /* "not_found", "busy", "unavailable", …: see docs/api.md */
    char message[768]; /* a sentence */
    char hint[384];    /* what to do about it, or "" */
};

/* `url` NULL: MSB_SERVER_URL, or http://127.0.0.1:5555; `key` NULL: MSB_API_KEY, or none. */
struct msb_client *msb_connect(const char *url, const char *key, struct msb_error *err);
/* After the last use of everything that came from it. NULL is fine. */
void msb_disconnect(struct msb_client *client);
/* Any method of the server (docs/api.md): parameters and result are JSON; for free(). */
char *msb_call(struct msb_client *client, const char *method, const char *params,
               struct msb_error *err);

/* ---- sandboxes ------------------------------------------------------------------------------ */

/* What is 0 or NULL is as the server has it. */
struct msb_options {
    const char *name;      /* NULL: one of its own making */
    const char *namespace; /* NULL: default */
    const char *image;     /* NULL: microsandbox/python */
    const char *language;  /* of msb_run; NULL: python, or node when the image's name has that */
    unsigned memory_mb;
    unsigned cpus;
    const char *const *env; /* NAME=value, ends with NULL */
};

/* Starts one, or finds it running. */
struct msb_sandbox *msb_start(struct msb_client *client, const struct msb_options *options,
                              struct msb_error *err);
/* Ends the sandbox; the handle stays. */
int msb_stop(struct msb_sandbox *sandbox, struct msb_error *err);
/* The sandbox goes on, if it was not stopped. NULL is fine. */
void msb_sandbox_free(struct msb_sandbox *sandbox);
const char *msb_sandbox_name(const struct msb_sandbox *sandbox);

/* Runs code in the live interpreter; variables stay for the next run. timeout_s 0: none. */
struct msb_result *msb_run(struct msb_sandbox *sandbox, const char *code, unsigned timeout_s,
                           struct msb_error *err);

/* What a streaming run tells. The text lasts for the call; nonzero ends the run. */
typedef int msb_output(void *context, bool is_stderr, const char *text, size_t length);

/* The same, with its output as it is printed; the result then has none of it. */
struct msb_result *msb_run_stream(struct msb_sandbox *sandbox, const char *code, unsigned timeout_s,
                                  msb_output *output, void *context, struct msb_error *err);

/* A command without a shell; argv ends with NULL. One that cannot be started is a failure. */
struct msb_result *msb_command(struct msb_sandbox *sandbox, const char *const *argv,
                               unsigned timeout_s, struct msb_error *err);

/* The contents, for free(); a NUL behind them is not counted in `length`. */
char *msb_read_file(struct msb_sandbox *sandbox, const char *path, size_t *length,
                    struct msb_error *err);
/* Folders on the way are made. */
int msb_write_file(struct msb_sandbox *sandbox, const char *path, const void *bytes, size_t length,
                   struct msb_error *err);

/* ---- sessions ------------------------------------------------------------------------------- */

/* Code in a session, which is made if need be. session_id NULL: a new one, see
 * msb_result_session. template NULL: python. */
struct msb_result *msb_session_run(struct msb_client *client, const char *session_id,
                                   const char *template_name, const char *code, unsigned timeout_s,
                                   struct msb_error *err);
/* 1: it is stopped; 0: there is no such session. */
int msb_session_stop(struct msb_client *client, const char *session_id, struct msb_error *err);

/* ---- results -------------------------------------------------------------------------------- */

bool msb_result_succeeded(const struct msb_result *result);
const char *msb_result_stdout(const struct msb_result *result);
const char *msb_result_stderr(const struct msb_result *result);
/* Of a command; of code 0, or 1 when it failed. */
int msb_result_exit_code(const struct msb_result *result);
/* "" for what did not run in a session. */
const char *msb_result_session(const struct msb_result *result);
/* The server's whole answer as JSON: results in all their forms, verdict, duration. */
const char *msb_result_json(const struct msb_result *result);
void msb_result_free(struct msb_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
