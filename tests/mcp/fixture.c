/*
 * What the conformance suite of the Model Context Protocol wants a server to offer, on the library
 * that msb uses. fixture.json has what is constant: definitions, answers, questions.
 *
 *     mcp-fixture fixture.json    prints its URL and serves until it is ended
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/context.h"
#include "server/mcp/mcp.h"

#define STEP_MS 50

static json_t *fixture;
static struct mcp *mcp;

static json_t *entry(const char *table, const char *name)
{
    return json_object_get(json_object_get(fixture, table), name);
}

static const char *name_of(const struct mcp_call *call)
{
    return json_string_value(json_object_get(call->params, "name"));
}

static void say(struct mcp_call *call, const char *text)
{
    mcp_succeed(call, json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text));
}

static void constant(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    mcp_succeed(call, json_deep_copy(entry("answers", name_of(call))));
}

/* ---- tools that take their time ------------------------------------------------------------- */

struct steps {
    uv_timer_t timer;
    struct mcp_call *call; /* NULL: cancelled */
    int done;
    void (*step)(struct mcp_call *call, int number);
};

static void on_closed(uv_handle_t *timer)
{
    free(timer);
}

static void on_step(uv_timer_t *timer)
{
    struct steps *steps = (struct steps *)timer;
    struct mcp_call *call = steps->call;
    if (steps->done < 3) {
        steps->step(call, steps->done++);
        return;
    }
    uv_close((uv_handle_t *)timer, on_closed);
    say(call, "All steps are done");
}

static void on_cancelled(struct mcp_call *call)
{
    struct steps *steps = call->context;
    uv_close((uv_handle_t *)&steps->timer, on_closed);
}

static void in_steps(struct mcp_call *call, void (*step)(struct mcp_call *call, int number))
{
    struct steps *steps = xcalloc(1, sizeof *steps);
    steps->call = call;
    steps->step = step;
    call->context = steps;
    call->cancelled = on_cancelled;
    uv_timer_init(uv_default_loop(), &steps->timer);
    uv_timer_start(&steps->timer, on_step, 0, STEP_MS);
}

static void log_step(struct mcp_call *call, int number)
{
    static const char *const texts[] = {"Tool execution started", "Tool processing data",
                                        "Tool execution completed"};
    mcp_log(call, MCP_INFO, NULL, json_string(texts[number]));
}

static void progress_step(struct mcp_call *call, int number)
{
    mcp_progress(call, 50 * number, 100, NULL);
}

static void leave_step(struct mcp_call *call, int number)
{
    if (number == 0)
        mcp_let_go(call);
}

static void with_logging(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    in_steps(call, log_step);
}

static void with_progress(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    in_steps(call, progress_step);
}

static void reconnection(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    in_steps(call, leave_step);
}

static void log_once(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    mcp_log(call, MCP_INFO, "fixture", json_string("once"));
    say(call, "logged");
}

/* ---- tools that ask the client -------------------------------------------------------------- */

static void on_sampled(struct mcp_call *call, const json_t *result)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(result, "content"), "text"));
    cleanup_free char *answer = xasprintf("LLM response: %s", text ? text : "none");
    say(call, answer);
}

static void on_elicited(struct mcp_call *call, const json_t *result)
{
    const char *action = json_string_value(json_object_get(result, "action"));
    cleanup_free char *content = json_dumps(json_object_get(result, "content"), JSON_COMPACT);
    cleanup_free char *answer = xasprintf("Elicitation completed: action=%s, content=%s",
                                          action ? action : "none", content ? content : "{}");
    say(call, answer);
}

static bool is_able(struct mcp_call *call, const char *ability)
{
    if (json_object_get(call->abilities, ability))
        return true;
    mcp_fail(call, MCP_MISSING_CAPABILITY, json_pack("{s:{s:{}}}", "requiredCapabilities", ability),
             "the client lacks %s", ability);
    return false;
}

static void sampling(struct mcp_call *call, const json_t *arguments)
{
    if (!is_able(call, "sampling"))
        return;
    mcp_ask(call, "sampling/createMessage",
            json_pack("{s:[{s:s, s:{s:s, s:O}}], s:i}", "messages", "role", "user", "content",
                      "type", "text", "text", json_object_get(arguments, "prompt"), "maxTokens",
                      100),
            on_sampled);
}

static void elicitation(struct mcp_call *call, const json_t *arguments)
{
    const char *message = json_string_value(json_object_get(arguments, "message"));
    if (!is_able(call, "elicitation"))
        return;
    mcp_ask(call, "elicitation/create",
            json_pack("{s:s, s:O}", "message", message ? message : "Please answer",
                      "requestedSchema", entry("questions", name_of(call))),
            on_elicited);
}

static void missing_capability(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    if (is_able(call, "sampling"))
        say(call, "there");
}

/* ---- answers that need input, in rounds ----------------------------------------------------- */

static const char *ability_for(const json_t *question)
{
    const char *method = json_string_value(json_object_get(question, "method"));
    if (strcmp(method, "roots/list") == 0)
        return "roots";
    return strcmp(method, "elicitation/create") == 0 ? "elicitation" : "sampling";
}

static void need_input(struct mcp_call *call, size_t round)
{
    json_t *questions = json_array_get(entry("rounds", name_of(call)), round);
    bool chooses = strstr(name_of(call), "capabilities") != NULL;
    json_t *asked = json_object();
    const char *name;
    json_t *question;
    json_object_foreach(questions, name, question)
    {
        if (!chooses || json_object_get(call->abilities, ability_for(question)))
            json_object_set(asked, name, question);
    }
    cleanup_free char *state = xasprintf("%s %zu", name_of(call), round);
    cleanup_free char *sealed = mcp_seal(mcp, state);
    mcp_succeed(call, json_pack("{s:s, s:o, s:s}", "resultType", "input_required", "inputRequests",
                                asked, "requestState", sealed));
}

/* The round that the client answers; -1: it begins. False: its state is not ours. */
static bool find_round(const struct mcp_call *call, long *round)
{
    const json_t *state = json_object_get(call->params, "requestState");
    *round = json_object_get(call->params, "inputResponses") ? 0 : -1;
    if (!state)
        return true;
    cleanup_free char *text =
        json_is_string(state) ? mcp_unseal(mcp, json_string_value(state)) : NULL;
    size_t length = strlen(name_of(call));
    if (!text || strncmp(text, name_of(call), length) != 0)
        return false;
    *round = strtol(text + length, NULL, 10);
    return true;
}

static bool is_answered(const struct mcp_call *call, size_t round)
{
    const json_t *given = json_object_get(call->params, "inputResponses");
    json_t *questions = json_array_get(entry("rounds", name_of(call)), round);
    const char *name;
    json_t *question;
    json_object_foreach(questions, name, question)
    {
        if (!json_is_object(json_object_get(given, name)))
            return false;
    }
    return true;
}

static void finish_rounds(struct mcp_call *call)
{
    cleanup_free char *given =
        json_dumps(json_object_get(call->params, "inputResponses"), JSON_COMPACT);
    cleanup_free char *text = xasprintf("state-ok %s", given);
    if (strstr(name_of(call), "prompt"))
        mcp_succeed(call, json_pack("{s:[{s:s, s:{s:s, s:s}}]}", "messages", "role", "user",
                                    "content", "type", "text", "text", text));
    else
        say(call, text);
}

static void in_rounds(struct mcp_call *call, const json_t *arguments)
{
    size_t rounds = json_array_size(entry("rounds", name_of(call)));
    long round;
    (void)arguments;
    if (!find_round(call, &round))
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "requestState is not what it was");
    else if (round < 0 || !is_answered(call, (size_t)round))
        need_input(call, round < 0 ? 0 : (size_t)round);
    else if ((size_t)round + 1 < rounds)
        need_input(call, (size_t)round + 1);
    else
        finish_rounds(call);
}

/* ---- changes -------------------------------------------------------------------------------- */

static void change_tools(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    mcp_tools_changed(mcp);
    say(call, "changed");
}

static void change_prompts(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    mcp_prompts_changed(mcp);
    say(call, "changed");
}

/* ---- prompts and resources ------------------------------------------------------------------ */

static void with_arguments(struct mcp_call *call, const json_t *arguments)
{
    const char *one = json_string_value(json_object_get(arguments, "arg1"));
    const char *two = json_string_value(json_object_get(arguments, "arg2"));
    cleanup_free char *text = xasprintf("Prompt with arguments: arg1='%s', arg2='%s'", one, two);
    mcp_succeed(call, json_pack("{s:[{s:s, s:{s:s, s:s}}]}", "messages", "role", "user", "content",
                                "type", "text", "text", text));
}

static void with_resource(struct mcp_call *call, const json_t *arguments)
{
    mcp_succeed(
        call, json_pack("{s:[{s:s, s:{s:s, s:{s:O, s:s, s:s}}}, {s:s, s:{s:s, s:s}}]}", "messages",
                        "role", "user", "content", "type", "resource", "resource", "uri",
                        json_object_get(arguments, "resourceUri"), "mimeType", "text/plain", "text",
                        "Embedded resource content for testing.", "role", "user", "content", "type",
                        "text", "text", "Please process the embedded resource above."));
}

static void list_resources(struct mcp_call *call, const char *cursor)
{
    (void)cursor;
    mcp_succeed_page(call, "resources", json_incref(json_object_get(fixture, "resources")), NULL);
}

static void read_resource(struct mcp_call *call, const char *uri)
{
    char id[64], end;
    json_t *content = json_deep_copy(entry("contents", uri));
    if (!content && sscanf(uri, "test://template/%63[^/]/dat%c", id, &end) == 2 && end == 'a') {
        cleanup_free char *text = xasprintf("{\"id\":\"%s\"}", id);
        content = json_pack("{s:s, s:s}", "mimeType", "application/json", "text", text);
    }
    if (!content) {
        mcp_fail_resource(call, uri);
        return;
    }
    json_object_set_new(content, "uri", json_string(uri));
    mcp_succeed(call, json_pack("{s:[o]}", "contents", content));
}

static bool can_watch(struct mcp_call *call, const char *uri)
{
    (void)call;
    return entry("contents", uri) != NULL;
}

static const struct mcp_tool tools[] = {
    {"test_simple_text", constant},
    {"test_image_content", constant},
    {"test_audio_content", constant},
    {"test_embedded_resource", constant},
    {"test_multiple_content_types", constant},
    {"test_error_handling", constant},
    {"test_header", constant},
    {"json_schema_2020_12_tool", constant},
    {"test_tool_with_logging", with_logging},
    {"test_tool_with_progress", with_progress},
    {"test_logging_tool", log_once},
    {"test_reconnection", reconnection},
    {"test_sampling", sampling},
    {"test_elicitation", elicitation},
    {"test_elicitation_sep1034_defaults", elicitation},
    {"test_elicitation_sep1330_enums", elicitation},
    {"test_missing_capability", missing_capability},
    {"test_trigger_tool_change", change_tools},
    {"test_trigger_prompt_change", change_prompts},
    {"test_streaming_elicitation", in_rounds},
    {"test_input_required_result_elicitation", in_rounds},
    {"test_input_required_result_sampling", in_rounds},
    {"test_input_required_result_list_roots", in_rounds},
    {"test_input_required_result_request_state", in_rounds},
    {"test_input_required_result_multiple_inputs", in_rounds},
    {"test_input_required_result_multi_round", in_rounds},
    {"test_input_required_result_tampered_state", in_rounds},
    {"test_input_required_result_capabilities", in_rounds},
    {0},
};

static const struct mcp_prompt prompts[] = {
    {"test_simple_prompt", constant},
    {"test_prompt_with_image", constant},
    {"test_prompt_with_arguments", with_arguments},
    {"test_prompt_with_embedded_resource", with_resource},
    {"test_input_required_result_prompt", in_rounds},
    {0},
};

static void handle(struct http_request *request)
{
    mcp_http_handle(mcp, request);
}

static const struct http_route routes[] = {
    {"POST", "/mcp", handle, 4u << 20},
    {"GET", "/mcp", handle, 0},
    {"DELETE", "/mcp", handle, 0},
    {0},
};

int main(int argc, char **argv)
{
    struct error err;
    struct server_options options = {.dev = true};
    struct server server = {.options = &options, .is_loopback = true};
    struct http_server http;
    if (argc != 2 || !(fixture = json_load_file(argv[1], 0, NULL))) {
        fprintf(stderr, "usage: mcp-fixture FIXTURE.JSON\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    cleanup_free char *definitions = json_dumps(fixture, 0);
    const struct mcp_offer offer = {.name = "mcp-fixture",
                                    .title = "Conformance fixture",
                                    .version = "1.0.0",
                                    .instructions = "For tests of the protocol.",
                                    .definitions = definitions,
                                    .tools = tools,
                                    .prompts = prompts,
                                    .list_resources = list_resources,
                                    .read_resource = read_resource,
                                    .can_watch = can_watch};
    mcp = mcp_make(uv_default_loop(), &offer, "fixture", 7);
    http_init(&http, uv_default_loop(), routes);
    http.admit = origin_admit;
    http.context = &server;
    if (http_listen(&http, "127.0.0.1", 0, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("http://127.0.0.1:%u/mcp\n", http_port(&http));
    fflush(stdout);
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
