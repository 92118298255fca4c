/* Sandboxes and sessions. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "events.h"

struct msb_sandbox {
    struct msb_client *client;
    char *namespace, *name, *language;
};

static char *copy(const char *text, const char *otherwise)
{
    return strdup(text ? text : otherwise);
}

static struct msb_sandbox *make_handle(struct msb_client *client, const struct msb_options *options)
{
    unsigned random = 0;
    char name[32];
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (unsigned)(size_t)client;
    snprintf(name, sizeof name, "sandbox-%08x", random);
    bool is_node = options->image && strstr(options->image, "node");
    struct msb_sandbox *sandbox = calloc(1, sizeof *sandbox);
    if (!sandbox)
        return NULL;
    sandbox->client = client;
    sandbox->name = copy(options->name, name);
    sandbox->namespace = copy(options->namespace, "default");
    sandbox->language = copy(options->language, is_node ? "node" : "python");
    return sandbox;
}

/* Parameters of a call on it. */
static json_t *place_of(const struct msb_sandbox *sandbox)
{
    return json_pack("{s:s, s:s}", "namespace", sandbox->namespace, "sandbox", sandbox->name);
}

static json_t *texts(const char *const *list)
{
    json_t *array = json_array();
    for (size_t i = 0; list && list[i]; i++)
        json_array_append_new(array, json_string(list[i]));
    return array;
}

static json_t *config_of(const struct msb_options *options)
{
    json_t *config =
        json_pack("{s:s, s:o}", "image", options->image ? options->image : "microsandbox/python",
                  "envs", texts(options->env));
    if (options->memory_mb)
        json_object_set_new(config, "memory", json_integer(options->memory_mb));
    if (options->cpus)
        json_object_set_new(config, "cpus", json_integer(options->cpus));
    return config;
}

struct msb_sandbox *msb_start(struct msb_client *client, const struct msb_options *options,
                              struct msb_error *err)
{
    static const struct msb_options usual;
    if (!options)
        options = &usual;
    struct msb_sandbox *sandbox = make_handle(client, options);
    if (!sandbox) {
        msb_set_error(err, "no_space", "out of memory", NULL);
        return NULL;
    }
    json_t *params = place_of(sandbox);
    json_object_set_new(params, "config", config_of(options));
    json_t *answer = msb_call_json(client, "sandbox.start", params, err);
    if (!answer) {
        msb_sandbox_free(sandbox);
        return NULL;
    }
    json_decref(answer);
    return sandbox;
}

int msb_stop(struct msb_sandbox *sandbox, struct msb_error *err)
{
    json_t *answer = msb_call_json(sandbox->client, "sandbox.stop", place_of(sandbox), err);
    json_decref(answer);
    return answer ? 0 : -1;
}

void msb_sandbox_free(struct msb_sandbox *sandbox)
{
    if (!sandbox)
        return;
    free(sandbox->namespace);
    free(sandbox->name);
    free(sandbox->language);
    free(sandbox);
}

const char *msb_sandbox_name(const struct msb_sandbox *sandbox)
{
    return sandbox->name;
}

static json_t *with_timeout(json_t *params, unsigned timeout_s)
{
    if (timeout_s)
        json_object_set_new(params, "timeout", json_integer(timeout_s));
    return params;
}

static json_t *code_params(const struct msb_sandbox *sandbox, const char *code, unsigned timeout_s)
{
    json_t *params = place_of(sandbox);
    json_object_set_new(params, "language", json_string(sandbox->language));
    json_object_set_new(params, "code", json_string(code));
    return with_timeout(params, timeout_s);
}

static struct msb_result *run(struct msb_client *client, const char *method, json_t *params,
                              struct msb_error *err)
{
    json_t *answer = msb_call_json(client, method, params, err);
    return answer ? msb_make_result(answer) : NULL;
}

struct msb_result *msb_run(struct msb_sandbox *sandbox, const char *code, unsigned timeout_s,
                           struct msb_error *err)
{
    return run(sandbox->client, "sandbox.repl.run", code_params(sandbox, code, timeout_s), err);
}

struct msb_result *msb_run_stream(struct msb_sandbox *sandbox, const char *code, unsigned timeout_s,
                                  msb_output *output, void *context, struct msb_error *err)
{
    struct msb_events events = {.output = output, .context = context};
    struct msb_result *result = NULL;
    int called =
        msb_call_events(sandbox->client, "sandbox.repl.stream",
                        code_params(sandbox, code, timeout_s), msb_events_take, &events, err);
    if (called == 0 && events.end)
        result = msb_make_result(json_incref(events.end));
    else if (called == 0 && events.ended_by_caller)
        msb_set_error(err, "cancelled", "the run was ended by its reader", NULL);
    else if (called == 0)
        msb_set_error(err, "unavailable", "the stream ended before the run did", NULL);
    json_decref(events.end);
    free(events.rest);
    return result;
}

struct msb_result *msb_command(struct msb_sandbox *sandbox, const char *const *argv,
                               unsigned timeout_s, struct msb_error *err)
{
    if (!argv || !argv[0]) {
        msb_set_error(err, "invalid", "there is no command", NULL);
        return NULL;
    }
    json_t *params = place_of(sandbox);
    json_object_set_new(params, "command", json_string(argv[0]));
    json_object_set_new(params, "args", texts(argv + 1));
    return run(sandbox->client, "sandbox.command.run", with_timeout(params, timeout_s), err);
}

/* ---- files ---------------------------------------------------------------------------------- */

static char *decode(const char *text, size_t *length)
{
    size_t encoded = strlen(text);
    char *bytes = malloc(encoded / 4 * 3 + 1);
    int count =
        bytes ? EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)text, (int)encoded)
              : -1;
    if (count < 0) {
        free(bytes);
        return NULL;
    }
    while (encoded > 0 && text[encoded - 1] == '=') {
        encoded--;
        count--;
    }
    bytes[count] = '\0';
    *length = (size_t)count;
    return bytes;
}

char *msb_read_file(struct msb_sandbox *sandbox, const char *path, size_t *length,
                    struct msb_error *err)
{
    json_t *params = place_of(sandbox);
    json_object_set_new(params, "path", json_string(path));
    json_object_set_new(params, "encoding", json_string("base64"));
    json_t *answer = msb_call_json(sandbox->client, "sandbox.file.read", params, err);
    const char *content = json_string_value(json_object_get(answer, "content"));
    char *bytes = content ? decode(content, length) : NULL;
    if (answer && !bytes)
        msb_set_error(err, "protocol", "the server answered with contents that cannot be read",
                      NULL);
    json_decref(answer);
    return bytes;
}

int msb_write_file(struct msb_sandbox *sandbox, const char *path, const void *bytes, size_t length,
                   struct msb_error *err)
{
    if (length > 1u << 30)
        return msb_set_error(err, "limit", "the file is too long for one call", NULL);
    char *text = malloc(length / 3 * 4 + 5);
    if (!text)
        return msb_set_error(err, "no_space", "out of memory", NULL);
    EVP_EncodeBlock((unsigned char *)text, bytes, (int)length);
    json_t *params = place_of(sandbox);
    json_object_set_new(params, "path", json_string(path));
    json_object_set_new(params, "content", json_string(text));
    json_object_set_new(params, "encoding", json_string("base64"));
    free(text);
    json_t *answer = msb_call_json(sandbox->client, "sandbox.file.write", params, err);
    json_decref(answer);
    return answer ? 0 : -1;
}

/* ---- sessions ------------------------------------------------------------------------------- */

struct msb_result *msb_session_run(struct msb_client *client, const char *session_id,
                                   const char *template_name, const char *code, unsigned timeout_s,
                                   struct msb_error *err)
{
    json_t *params = json_pack("{s:s, s:s, s:b}", "code", code, "template",
                               template_name ? template_name : "python", "wait", 1);
    if (params && session_id)
        json_object_set_new(params, "session_id", json_string(session_id));
    return run(client, "session.run_code", params ? with_timeout(params, timeout_s) : NULL, err);
}

int msb_session_stop(struct msb_client *client, const char *session_id, struct msb_error *err)
{
    json_t *answer =
        msb_call_json(client, "session.stop", json_pack("{s:s}", "session_id", session_id), err);
    if (!answer)
        return strstr(err->code, "not_found") ? 0 : -1;
    json_decref(answer);
    return 1;
}
