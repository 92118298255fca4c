/* What the files of this folder share. */
#pragma once

#include "server/tools/answer.h"
#include "server/tools/job.h"
#include "server/tools/tools.h"

/* A file that is read at once. */
#define ARTIFACT_MAX (10u << 20)
/* Of lists: levels of folders, and files of a page. */
#define ARTIFACT_DEPTH 8
#define ARTIFACT_PAGE 200

static inline struct server *tools_server(const struct mcp_call *call)
{
    return mcp_offer(call->mcp)->context;
}

/* stdio.c: what sandboxes need, which a server has from the start and a process on stdio at its
 * first call. */
int tools_begin(struct server *server, struct error *err);

/* offer.c */
/* Where the sessions of whoever calls are. */
const char *tools_namespace(const struct mcp_call *call);
/* For the log, before anything is answered. */
void tools_note(struct mcp_call *call, const char *namespace, const char *sandbox);
/* A call's argument, NULL when it is absent; -1: it is no text. */
int tools_text(const json_t *arguments, const char *name, const char **text,
               struct session_failure *failure);
int tools_need_text(const json_t *arguments, const char *name, const char **text,
                    struct session_failure *failure);
int tools_number(const json_t *arguments, const char *name, uint64_t high, uint64_t *number,
                 struct session_failure *failure);
/* Of a session that the caller has given none, for free(). */
char *tools_new_session(void);
/* The same, wrapped in "params" or not. */
const json_t *tools_unwrap(const json_t *arguments);

/* box_tools.c */
void tool_sandbox_start(struct mcp_call *call, const json_t *arguments);
void tool_sandbox_stop(struct mcp_call *call, const json_t *arguments);
void tool_sandbox_run_code(struct mcp_call *call, const json_t *arguments);
void tool_sandbox_run_command(struct mcp_call *call, const json_t *arguments);
void tool_sandbox_get_metrics(struct mcp_call *call, const json_t *arguments);
/* run_tools.c */
void tool_run_python(struct mcp_call *call, const json_t *arguments);
void tool_execute_code(struct mcp_call *call, const json_t *arguments);
void tool_execute_command(struct mcp_call *call, const json_t *arguments);
/* upload_tool.c */
void tool_upload_file(struct mcp_call *call, const json_t *arguments);
/* artifact_tools.c */
void tool_list_artifacts(struct mcp_call *call, const json_t *arguments);
void tool_read_artifact(struct mcp_call *call, const json_t *arguments);
/* session_tools.c */
void tool_close_session(struct mcp_call *call, const json_t *arguments);
void tool_get_sessions(struct mcp_call *call, const json_t *arguments);
void tool_stop_session(struct mcp_call *call, const json_t *arguments);
void tool_get_volume_mappings(struct mcp_call *call, const json_t *arguments);
/* prompts.c */
void prompt_python(struct mcp_call *call, const json_t *arguments);
void prompt_node(struct mcp_call *call, const json_t *arguments);
void prompt_complete(struct mcp_call *call, const char *reference, const char *argument,
                     const char *value);
/* resources.c */
void resources_list(struct mcp_call *call, const char *cursor);
void resources_read(struct mcp_call *call, const char *uri);
bool resources_can_watch(struct mcp_call *call, const char *uri);
/* Files of a session have changed, or are new: records with paths. */
void resources_tell(struct server *server, const char *namespace, const char *session,
                    const json_t *files);
