/* What a running server has; request->server->context points to it. */
#pragma once

#include "sandbox/boxes.h"
#include "server/figures.h"
#include "server/http/http.h"
#include "server/mcp/mcp.h"
#include "server/server.h"
#include "session/sessions.h"

#define SERVER_STATUSES 600

struct server {
    uv_loop_t loop;
    const struct server_options *options;
    char *secret; /* signs API keys; NULL: none are asked for */
    struct http_server http;
    struct launcher launcher;
    struct boxes boxes;
    struct session_settings session_settings;
    struct sessions *sessions;
    struct mcp_offer offers[FIGURES_TOOL_SETS]; /* by enum tool_set */
    struct mcp *mcp[FIGURES_TOOL_SETS]; /* the same; NULL: it is closed, or never was open */
    struct job *jobs;                   /* of tools, see tools/job.h */
    struct http_request *asking;        /* whose tool call begins right now */
    struct figures *figures;
    uint64_t answers[SERVER_STATUSES]; /* how many, by their HTTP status */
    uint64_t began_us;                 /* as clock_monotonic_us has it */
    uv_signal_t term, interrupt, hangup;
    uv_timer_t grace; /* for requests under way when the server is to end */
    bool is_loopback;
    bool stopping;
};

/* origin.c: refuses what a web page of somebody else could send, and answers preflights. */
bool origin_admit(struct http_request *request);
bool origin_is_loopback(const char *host);

/* key_admit.c: refuses requests without a good key, and notes what the key is good for. */
bool key_admit(struct http_request *request);

/* path_box.c: the running sandbox that {namespace} and {name} of the path stand for. NULL: the
 * request is answered. */
struct box *path_box(struct http_request *request);

/* files.c, file_upload.c: a file of a sandbox, as it is. */
void files_get(struct http_request *request);
void files_put(struct http_request *request);

/* terminal.c: a WebSocket to a terminal in a sandbox. */
void terminal_open(struct http_request *request);

/* routes.c */
extern const struct http_route server_routes[];

/* standing.c: has made ahead what MSB_POOL_IMAGES names. */
void standing_open(struct server *server);

/* metrics.c: GET /metrics, for Prometheus; of the key's namespace, or of everything. */
void metrics_handle(struct http_request *request);

/* port_holder.c: the process that listens on the port, "" when that cannot be told. */
void port_holder(uint16_t port, char *text, size_t size);
