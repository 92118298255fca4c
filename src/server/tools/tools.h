/*
 * What models can do here, by the Model Context Protocol: two sets of tools, prompts and the files
 * of sessions as resources. A sandbox belongs to a name or a session id in the arguments, never to
 * the connection that they come on. Definitions are in sandbox.json and sessions.json.
 */
#pragma once

#include "server/context.h"

enum tool_set {
    TOOLS_SANDBOX,  /* /mcp: sandboxes by name, Python in sessions */
    TOOLS_SESSIONS, /* /mcp/sessions: code and commands in sessions */
};

/* The secret is the server's; names of conversations are signed with one that follows from it. */
void tools_open(struct server *server, enum tool_set set, const char *secret);
/* Both sets: streams end, and calls under way with an error. */
void tools_close(struct server *server);
/* Requests on the paths of both sets. */
void tools_handle(struct http_request *request);

/* Serves one client on these descriptors until it leaves, on the server's loop. `server` is all
 * zero; what it starts ends with the process. */
int tools_serve_stdio(struct server *server, const struct server_options *options,
                      enum tool_set set, int in, int out, struct error *err);
