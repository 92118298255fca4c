/*
 * The Model Context Protocol, from the server's side: what is offered (tools, prompts, resources)
 * is described by a struct mcp_offer, calls of clients arrive at its functions, and these answer
 * exactly once, at once or later. Clients of both eras are served side by side: the legacy one
 * (2024-11-05 to 2025-11-25: initialize, conversations) and the modern one (2026-07-28: every
 * request stands alone).
 *
 * Nothing here knows what a sandbox is.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct http_request;
struct mcp;
struct mcp_call;

enum mcp_code {
    MCP_PARSE = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_NO_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_NO_RESOURCE = -32002, /* to legacy clients */
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNKNOWN_VERSION = -32022,
};

enum mcp_level {
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    MCP_SILENT, /* no message is that important */
};

struct mcp_tool {
    const char *name;
    /* `arguments` is an object and belongs to the call. */
    void (*call)(struct mcp_call *call, const json_t *arguments);
};

enum mcp_outcome { MCP_DONE, MCP_FAILED, MCP_CANCELLED, MCP_OUTCOMES };

struct mcp_prompt {
    const char *name;
    void (*get)(struct mcp_call *call, const json_t *arguments);
};

/* What a server offers. Texts and arrays must outlive the server. */
struct mcp_offer {
    const char *name, *title, *version, *instructions;
    void *context; /* for the functions below: mcp_offer(call->mcp)->context */
    /* A JSON object with "tools", "prompts" and "resourceTemplates", arrays of definitions as
     * clients get them. Each tool and prompt has its function below. */
    const char *definitions;
    const struct mcp_tool *tools;     /* ends with a NULL name */
    const struct mcp_prompt *prompts; /* the same */
    /* May be NULL, like all that follow: there are no resources. `cursor` is NULL at first. */
    void (*list_resources)(struct mcp_call *call, const char *cursor);
    void (*read_resource)(struct mcp_call *call, const char *uri);
    /* Whether there is, or could be, something to watch. */
    bool (*can_watch)(struct mcp_call *call, const char *uri);
    /* Answers with mcp_complete. `reference` is the prompt's name or the template's text. */
    void (*complete)(struct mcp_call *call, const char *reference, const char *argument,
                     const char *value);
    /* The call of a tool is over; for whoever counts. */
    void (*tool_over)(const struct mcp_call *call, enum mcp_outcome outcome);
};

/* One request of a client, from its arrival to its answer. */
struct mcp_call {
    struct mcp *mcp;
    const json_t *params;    /* an object, maybe an empty one */
    char scope[64];          /* what the client's key is good for */
    const json_t *abilities; /* of the client: sampling, elicitation, … */
    const char *era;         /* the version of the protocol that it speaks */
    bool is_modern;
    char *base; /* where the client found the server, see http_base; NULL: not over HTTP */
    const struct mcp_tool *tool; /* that is called; NULL: none */
    /* For whoever answers. */
    void *context;
    char about[64]; /* for tool_over */
    /* The client wants the answer no more; the call does not exist when this returns. */
    void (*cancelled)(struct mcp_call *call);
    /* For the library. */
    struct mcp_peer *peer;
    struct mcp_stream *stream;
    json_t *message;
    const json_t *id;
    enum mcp_level level;
    const char *caching; /* the cacheScope of its answer; NULL: it is not for caches */
    struct mcp_call *next;
};

/* `secret` signs the names of conversations, so that they outlive the server. */
struct mcp *mcp_make(uv_loop_t *loop, const struct mcp_offer *offer, const void *secret,
                     size_t length);
/* Ends what lasts: streams and subscriptions. Calls under way are cancelled. */
void mcp_close(struct mcp *mcp);
const struct mcp_offer *mcp_offer(const struct mcp *mcp);

/* A text for a client to keep, with a signature; and what it was, or NULL when it is not ours. For
 * free(). */
char *mcp_seal(const struct mcp *mcp, const char *text);
char *mcp_unseal(const struct mcp *mcp, const char *sealed);

/* POST, GET and DELETE of the one path of the protocol. */
void mcp_http_handle(struct mcp *mcp, struct http_request *request);
/* Lines on these descriptors, until `ended`. */
int mcp_stdio_start(struct mcp *mcp, int in, int out, void (*ended)(struct mcp *mcp));

/* Answers. All of them take the JSON. */
void mcp_succeed(struct mcp_call *call, json_t *result);
void mcp_fail(struct mcp_call *call, enum mcp_code code, json_t *data, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* There is no such resource; says so as the client's era wants it. */
void mcp_fail_resource(struct mcp_call *call, const char *uri);
/* One page of a list; next_cursor is NULL on the last. */
void mcp_succeed_page(struct mcp_call *call, const char *name, json_t *items,
                      const char *next_cursor);
/* Values of a completion, an array of at most 100 texts. */
void mcp_complete(struct mcp_call *call, json_t *values);

/* Before the answer. */
/* Whether the client asked for progress; without that, mcp_progress does nothing. */
bool mcp_wants_progress(const struct mcp_call *call);
void mcp_progress(struct mcp_call *call, double progress, double total, const char *message);
void mcp_log(struct mcp_call *call, enum mcp_level level, const char *logger, json_t *data);
/* Asks the client something (sampling, elicitation); legacy only. `answered` gets the result, or
 * NULL. The call waits. */
void mcp_ask(struct mcp_call *call, const char *method, json_t *params,
             void (*answered)(struct mcp_call *call, const json_t *result));
/* Lets the client go and come back for the rest; legacy HTTP from 2025-11-25 on. */
void mcp_let_go(struct mcp_call *call);

/* To whom it may concern, of those whose key is good for `scope`. */
void mcp_tools_changed(struct mcp *mcp);
void mcp_prompts_changed(struct mcp *mcp);
void mcp_resources_changed(struct mcp *mcp, const char *scope);
void mcp_resource_changed(struct mcp *mcp, const char *scope, const char *uri);
