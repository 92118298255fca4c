/* Two prompts, as first words of a conversation about a sandbox. */
#include <string.h>

#include "base/mem.h"
#include "server/tools/internal.h"

static void ask_for(struct mcp_call *call, const json_t *arguments, const char *language,
                    const char *image)
{
    const char *name = json_string_value(json_object_get(arguments, "sandbox_name"));
    const char *namespace = json_string_value(json_object_get(arguments, "namespace"));
    cleanup_free char *fallback = xasprintf("%s-sandbox", image);
    cleanup_free char *about = xasprintf("Start a sandbox for %s", language);
    cleanup_free char *text = xasprintf(
        "Start a sandbox named \"%.64s\" in the namespace \"%.64s\" with the image "
        "microsandbox/%s, 512 MB of memory and 1 processor, by the tool sandbox_start. Then it is "
        "ready for %s code with sandbox_run_code and for commands with sandbox_run_command. Stop "
        "it with sandbox_stop when it is needed no more.",
        name ? name : fallback, namespace ? namespace : tools_namespace(call), image, language);
    mcp_succeed(call, json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}]}", "description", about, "messages",
                                "role", "user", "content", "type", "text", "text", text));
}

void prompt_python(struct mcp_call *call, const json_t *arguments)
{
    ask_for(call, arguments, "Python", "python");
}

void prompt_node(struct mcp_call *call, const json_t *arguments)
{
    ask_for(call, arguments, "JavaScript", "node");
}

/* Sessions that begin with what was typed, for the template of resources. */
void prompt_complete(struct mcp_call *call, const char *reference, const char *argument,
                     const char *value)
{
    (void)reference;
    struct server *server = tools_server(call);
    json_t *values = json_array();
    bool is_session = strcmp(argument, "session") == 0 && server->sessions;
    json_t *list =
        is_session ? sessions_list(server->sessions, tools_namespace(call)) : json_array();
    size_t index;
    json_t *session;
    json_array_foreach(list, index, session)
    {
        const char *id = json_string_value(json_object_get(session, "session_id"));
        if (strncmp(id, value, strlen(value)) == 0 && json_array_size(values) < 100)
            json_array_append_new(values, json_string(id));
    }
    json_decref(list);
    mcp_complete(call, values);
}
