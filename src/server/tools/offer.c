/* The two sets, where they are found, and what all tools do with their calls. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/embed.h"
#include "base/mem.h"
#include "sandbox/config.h"
#include "server/keys.h"
#include "server/record.h"
#include "server/rpc.h"
#include "server/tools/internal.h"

EMBED(sandbox_tools, "src/server/tools/sandbox.json");
EMBED(session_tools, "src/server/tools/sessions.json");

static const struct mcp_tool tools[][FIGURES_TOOLS + 1] = {
    [TOOLS_SANDBOX] =
        {
            {"sandbox_start", tool_sandbox_start},
            {"sandbox_stop", tool_sandbox_stop},
            {"sandbox_run_code", tool_sandbox_run_code},
            {"sandbox_run_command", tool_sandbox_run_command},
            {"sandbox_get_metrics", tool_sandbox_get_metrics},
            {"sandbox_run_python", tool_run_python},
            {"sandbox_upload_file", tool_upload_file},
            {"sandbox_list_artifacts", tool_list_artifacts},
            {"sandbox_read_artifact", tool_read_artifact},
            {"sandbox_close_session", tool_close_session},
            {0},
        },
    [TOOLS_SESSIONS] =
        {
            {"execute_code", tool_execute_code},
            {"execute_command", tool_execute_command},
            {"get_sessions", tool_get_sessions},
            {"stop_session", tool_stop_session},
            {"get_volume_mappings", tool_get_volume_mappings},
            {0},
        },
};

static const struct mcp_prompt prompts[] = {
    {"create_python_sandbox", prompt_python},
    {"create_node_sandbox", prompt_node},
    {0},
};

static const struct mcp_offer offers[] = {
    [TOOLS_SANDBOX] =
        {
            .name = "microsandbox-server",
            .title = "Sandboxes",
            .version = MSB_VERSION,
            .instructions =
                "Runs code in isolated sandboxes. For Python, call sandbox_run_python right away "
                "and pass its session_id on: variables and files stay. Figures come back as "
                "pictures; files that code writes come back as links, which "
                "sandbox_read_artifact reads. Use sandbox_start for other languages or images.",
            .tools = tools[TOOLS_SANDBOX],
            .prompts = prompts,
            .list_resources = resources_list,
            .read_resource = resources_read,
            .can_watch = resources_can_watch,
            .complete = prompt_complete,
        },
    [TOOLS_SESSIONS] =
        {
            .name = "microsandbox-sessions",
            .title = "Sandbox sessions",
            .version = MSB_VERSION,
            .instructions = "Runs code and shell lines in isolated sessions. Pass the session id "
                            "of an answer on: variables and files stay.",
            .tools = tools[TOOLS_SESSIONS],
            .list_resources = resources_list,
            .read_resource = resources_read,
            .can_watch = resources_can_watch,
        },
};

/* Where it had no namespace that is its caller's, it counts as its caller's. */
static void count(const struct mcp_call *call, enum mcp_outcome outcome)
{
    struct server *server = tools_server(call);
    const char *namespace = call->about[0] ? call->about : tools_namespace(call);
    for (size_t set = 0; set < FIGURES_TOOL_SETS; set++) {
        size_t which = (size_t)(call->tool - server->offers[set].tools);
        if (mcp_offer(call->mcp) == &server->offers[set])
            figures_of(&server->figures, namespace)->tools[set][which][outcome]++;
    }
}

void tools_open(struct server *server, enum tool_set set, const char *secret)
{
    cleanup_free char *own = keys_sign(secret, "conversations of tools");
    struct mcp_offer *offer = &server->offers[set];
    *offer = offers[set];
    offer->definitions =
        (const char *)(set == TOOLS_SANDBOX ? sandbox_tools_begin : session_tools_begin);
    offer->context = server;
    offer->tool_over = count;
    server->mcp[set] = mcp_make(&server->loop, offer, own, strlen(own));
}

void tools_close(struct server *server)
{
    jobs_end(server);
    for (size_t i = 0; i < sizeof server->mcp / sizeof server->mcp[0]; i++) {
        struct mcp *mcp = steal_pointer(&server->mcp[i]);
        if (mcp)
            mcp_close(mcp);
    }
}

void tools_handle(struct http_request *request)
{
    struct server *server = request->server->context;
    bool is_sessions = strcmp(request->path, "/mcp/sessions") == 0;
    struct mcp *mcp = server->mcp[is_sessions ? TOOLS_SESSIONS : TOOLS_SANDBOX];
    if (!mcp) {
        struct error err;
        error_set(&err, ERROR_UNAVAILABLE, "the server is about to end");
        http_answer_error(request, 503, &err);
        return;
    }
    server->asking = request;
    mcp_http_handle(mcp, request);
    server->asking = NULL;
}

/* ---- for all tools -------------------------------------------------------------------------- */

const char *tools_namespace(const struct mcp_call *call)
{
    return strcmp(call->scope, KEY_ALL_NAMESPACES) == 0 ? SANDBOX_DEFAULT_NAMESPACE : call->scope;
}

/* Nothing is written down that the caller may not see, or that could not be a name. */
void tools_note(struct mcp_call *call, const char *namespace, const char *sandbox)
{
    struct error ignored;
    bool is_theirs =
        strcmp(call->scope, KEY_ALL_NAMESPACES) == 0 || strcmp(call->scope, namespace) == 0;
    if (!is_theirs || sandbox_check_name("", namespace, &ignored) < 0)
    namespace = "";
    if (!namespace[0] || sandbox_check_name("", sandbox, &ignored) < 0)
        sandbox = "";
    struct server *server = tools_server(call);
    struct http_request *request = steal_pointer(&server->asking);
    snprintf(call->about, sizeof call->about, "%s", namespace);
    if (!request)
        return;
    record_note(request, namespace, sandbox);
    record_of(request)->tool = call->tool->name;
}

static int wrong(struct session_failure *failure, const struct error *err)
{
    return failure_wrap(failure, FAILURE_REQUEST, NULL, NULL, err);
}

int tools_text(const json_t *arguments, const char *name, const char **text,
               struct session_failure *failure)
{
    struct error err;
    *text = NULL;
    return rpc_member_text(arguments, name, text, &err) < 0 ? wrong(failure, &err) : 0;
}

int tools_need_text(const json_t *arguments, const char *name, const char **text,
                    struct session_failure *failure)
{
    struct error err;
    if (tools_text(arguments, name, text, failure) < 0)
        return -1;
    if (*text)
        return 0;
    error_set(&err, ERROR_INVALID, "the argument \"%s\" is missing", name);
    return wrong(failure, &err);
}

int tools_number(const json_t *arguments, const char *name, uint64_t high, uint64_t *number,
                 struct session_failure *failure)
{
    struct error err;
    return rpc_member_number(arguments, name, high, number, &err) < 0 ? wrong(failure, &err) : 0;
}

const json_t *tools_unwrap(const json_t *arguments)
{
    const json_t *wrapped = json_object_get(arguments, "params");
    return json_is_object(wrapped) ? wrapped : arguments;
}

char *tools_new_session(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    return xasprintf("sess_%012llx", (unsigned long long)(number & 0xffffffffffff));
}
