#include "server/rpc.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "sandbox/config.h"
#include "server/keys.h"
#include "server/record.h"

const enum rpc_code rpc_codes[] = {
    RPC_PARSE,          RPC_INVALID_REQUEST, RPC_NO_METHOD,
    RPC_INVALID_PARAMS, RPC_INTERNAL,        RPC_AUTHENTICATION,
    RPC_NO_SANDBOX,     RPC_EXISTS,          0,
};

size_t rpc_code_index(enum rpc_code code)
{
    size_t i = 0;
    while (rpc_codes[i] && rpc_codes[i] != code)
        i++;
    return i;
}

static const struct rpc_method *find_method(const char *name)
{
    for (const struct rpc_method *method = rpc_methods; method->name; method++) {
        if (strcmp(method->name, name) == 0)
            return method;
    }
    return NULL;
}

static void call_free(struct rpc_call *call)
{
    json_decref(call->body);
    free(call);
}

struct http_request *rpc_release(struct rpc_call *call)
{
    struct http_request *request = call->request;
    call_free(call);
    return request;
}

static void answer_within(struct rpc_call *call, json_t *message)
{
    struct rpc_asker *asker = call->asker;
    asker->call = NULL;
    call_free(call);
    asker->answered(asker, message);
}

static void answer(struct rpc_call *call, json_t *message)
{
    if (!call->request) {
        answer_within(call, message);
        return;
    }
    json_t *id = json_object_get(call->body, "id");
    json_object_set_new(message, "jsonrpc", json_string("2.0"));
    if (id)
        json_object_set(message, "id", id);
    http_answer_json(rpc_release(call), 200, message);
}

void rpc_succeed(struct rpc_call *call, json_t *result)
{
    json_t *message = json_pack("{s:o}", "result", result);
    if (call->is_alias && json_is_string(result))
        json_object_set(message, "message", result);
    answer(call, message);
}

static void append_dump(struct buf *out, const json_t *json)
{
    cleanup_free char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    buf_append_text(out, text);
}

static void succeed_within(struct rpc_call *call, json_t *result, const struct lines *lines)
{
    cleanup_buf struct buf text = {0};
    buf_append_text(&text, "[");
    buf_append(&text, buf_data(&lines->json), buf_length(&lines->json));
    buf_append_text(&text, "]");
    json_object_set_new(
        result, "output",
        json_loadb((const char *)buf_data(&text), buf_length(&text), JSON_ALLOW_NUL, NULL));
    rpc_succeed(call, result);
}

void rpc_succeed_with(struct rpc_call *call, json_t *result, const struct lines *lines)
{
    if (!call->request) {
        succeed_within(call, result, lines);
        return;
    }
    cleanup_buf struct buf text = {0};
    const json_t *id = json_object_get(call->body, "id");
    buf_append_text(&text, "{\"jsonrpc\":\"2.0\"");
    if (id) {
        buf_append_text(&text, ",\"id\":");
        append_dump(&text, id);
    }
    buf_append_text(&text, ",\"result\":");
    append_dump(&text, result);
    json_decref(result);
    text.end--; /* the result goes on */
    buf_append_text(&text, ",\"output\":[");
    buf_append(&text, buf_data(&lines->json), buf_length(&lines->json));
    buf_append_text(&text, "]}}");
    http_answer(rpc_release(call), 200, "application/json", buf_data(&text), buf_length(&text));
}

static json_t *describe_error(struct http_request *request, enum rpc_code code,
                              const struct error *given)
{
    if (request) {
        record_of(request)->code = code;
        record_of(request)->error = given->code;
    }
    struct error clean = *given, *err = &clean;
    json_text_clean(clean.message);
    json_text_clean(clean.hint);
    json_t *data = json_pack("{s:s}", "code", error_code_name(err->code));
    if (err->hint[0])
        json_object_set_new(data, "hint", json_string(err->hint));
    json_t *error =
        json_pack("{s:i, s:s, s:o}", "code", (int)code, "message", err->message, "data", data);
    return json_pack("{s:o}", "error", error);
}

void rpc_fail_as(struct rpc_call *call, enum rpc_code code, const struct error *err)
{
    answer(call, describe_error(call->request, code, err));
}

void rpc_fail_data(struct rpc_call *call, enum rpc_code code, const char *message, json_t *data)
{
    if (call->request)
        record_of(call->request)->code = code;
    answer(call, json_pack("{s:{s:i, s:s, s:o}}", "error", "code", (int)code, "message", message,
                           "data", data));
}

void rpc_refuse(struct http_request *request, enum rpc_code code, const struct error *err)
{
    json_t *message = describe_error(request, code, err);
    json_object_set_new(message, "jsonrpc", json_string("2.0"));
    http_answer_json(request, 200, message);
}

void rpc_fail(struct rpc_call *call, const struct error *err)
{
    rpc_fail_as(call, err->code == ERROR_INVALID ? RPC_INVALID_PARAMS : RPC_INTERNAL, err);
}

struct box *rpc_box(struct rpc_call *call)
{
    struct error err;
    struct box *box = boxes_find(&call->server->boxes, call->namespace, call->name, &err);
    if (!box)
        rpc_fail_as(call, err.code == ERROR_NOT_FOUND ? RPC_NO_SANDBOX : RPC_INTERNAL, &err);
    return box;
}

static int check_names(struct rpc_call *call, enum rpc_scope scope, struct error *err)
{
    int result = rpc_text(call, "namespace", &call->namespace, err);
    if (result == 0 && scope == RPC_ONE)
        result = rpc_need_text(call, "sandbox", &call->name, err);
    else if (result == 0 && scope == RPC_MANY)
        result = rpc_text(call, "sandbox", &call->name, err);
    bool may_be_all = scope == RPC_MANY || scope == RPC_SPACES;
    if (result == 0 && !(may_be_all && strcmp(call->namespace, "*") == 0))
        result = sandbox_check_name("namespace", call->namespace, err);
    if (result == 0 && call->name)
        result = sandbox_check_name("sandbox name", call->name, err);
    return result;
}

static int refuse_scope(const char *what, const char *hint, struct error *err)
{
    error_set(err, ERROR_DENIED, "%s", what);
    return error_hint(err, "%s", hint);
}

static int check_scope(struct rpc_call *call, enum rpc_scope scope, struct error *err)
{
    bool all = strcmp(call->scope, KEY_ALL_NAMESPACES) == 0;
    call->namespace = all ? SANDBOX_DEFAULT_NAMESPACE : call->scope;
    if (scope == RPC_NONE || (scope == RPC_ALL && all))
        return 0;
    if (scope == RPC_ALL)
        return refuse_scope("this key is good for one namespace, not for all",
                            "msb server keygen --namespace '*' makes one that is", err);
    if (check_names(call, scope, err) < 0)
        return -1;
    if (!all && strcmp(call->namespace, call->scope) != 0) {
        cleanup_free char *what =
            xasprintf("this key is not good for namespace %s", call->namespace);
        return refuse_scope(what, "leave \"namespace\" out, or use a key that is good for it", err);
    }
    bool is_one = strcmp(call->namespace, "*") != 0;
    if (call->request)
        record_note(call->request, is_one ? call->namespace : "", call->name ? call->name : "");
    return 0;
}

static void on_gone(struct http_request *request)
{
    struct rpc_call *call = request->context;
    if (call->left)
        call->left(call);
    call_free(call);
}

static void run(struct rpc_call *call, const char *name)
{
    struct error err;
    const struct rpc_method *method = find_method(name);
    if (call->request)
        record_of(call->request)->method = method;
    if (!method) {
        error_set(&err, ERROR_NOT_FOUND, "there is no method \"%.60s\"", name);
        error_hint(&err, "rpc.discover lists them");
        rpc_fail_as(call, RPC_NO_METHOD, &err);
        return;
    }
    if (call->params && !json_is_object(call->params) && !json_is_null(call->params)) {
        error_set(&err, ERROR_INVALID, "params must be an object");
        rpc_fail(call, &err);
    } else if (check_scope(call, method->scope, &err) < 0) {
        rpc_fail_as(call, err.code == ERROR_DENIED ? RPC_AUTHENTICATION : RPC_INVALID_PARAMS, &err);
    } else if (rpc_check_params(method->params, call->params, &err) < 0) {
        bool is_session = strncmp(method->name, "session.", strlen("session.")) == 0;
        (is_session ? session_refuse : rpc_fail)(call, &err);
    } else {
        method->run(call);
    }
}

void rpc_run_within(struct server *server, const char *scope, const char *method, json_t *params,
                    struct rpc_asker *asker)
{
    struct rpc_call *call = xcalloc(1, sizeof *call);
    call->server = server;
    call->scope = scope;
    call->asker = asker;
    call->body = json_pack("{s:O}", "params", params);
    call->params = params;
    asker->call = call;
    run(call, method);
}

void rpc_abandon(struct rpc_asker *asker)
{
    struct rpc_call *call = steal_pointer(&asker->call);
    if (call->left)
        call->left(call);
    call_free(call);
}

static bool has_json_type(const struct http_request *request)
{
    static const char wanted[] = "application/json";
    const char *type = http_header(request, "Content-Type");
    return type && strncasecmp(type, wanted, sizeof wanted - 1) == 0 &&
           strchr("; \t", type[sizeof wanted - 1]);
}

/* NULL: the request is answered. */
static struct rpc_call *begin(struct http_request *request)
{
    struct error err;
    json_error_t problem;
    if (!has_json_type(request)) {
        error_set(&err, ERROR_INVALID, "the body must be JSON");
        error_hint(&err, "send the header Content-Type: application/json");
        http_answer_error(request, 415, &err);
        return NULL;
    }
    struct rpc_call *call = xcalloc(1, sizeof *call);
    call->request = request;
    call->scope = request->scope;
    call->server = request->server->context;
    request->context = call;
    request->gone = on_gone;
    record_of(request);
    call->body = json_loadb((const char *)buf_data(&request->body), buf_length(&request->body),
                            JSON_REJECT_DUPLICATES, &problem);
    buf_free(&request->body);
    call->params = json_object_get(call->body, "params");
    if (json_is_object(call->body))
        return call;
    if (call->body)
        error_set(&err, ERROR_INVALID,
                  "the request must be one JSON object; batches are not taken");
    else
        error_set(&err, ERROR_INVALID, "the body is no JSON: line %d, column %d: %.200s",
                  problem.line, problem.column, problem.text);
    rpc_fail_as(call, call->body ? RPC_INVALID_REQUEST : RPC_PARSE, &err);
    return NULL;
}

void rpc_handle(struct http_request *request)
{
    struct error err;
    struct rpc_call *call = begin(request);
    if (!call)
        return;
    const char *version = json_string_value(json_object_get(call->body, "jsonrpc"));
    const char *method = json_string_value(json_object_get(call->body, "method"));
    const json_t *id = json_object_get(call->body, "id");
    if (version && strcmp(version, "2.0") == 0 && method && !json_is_object(id) &&
        !json_is_array(id)) {
        run(call, method);
        return;
    }
    error_set(&err, ERROR_INVALID,
              "a request has \"jsonrpc\": \"2.0\", a \"method\" and, at will, a plain \"id\"");
    rpc_fail_as(call, RPC_INVALID_REQUEST, &err);
}

void rpc_handle_alias(struct http_request *request)
{
    const char *rest = strstr(request->path, "/sandbox/");
    struct rpc_call *call = begin(request);
    if (!call || !rest)
        return;
    cleanup_free char *name = xstrdup(rest + 1);
    for (char *at = name; (at = strchr(at, '/'));)
        *at = '.';
    call->is_alias = true;
    run(call, name);
}
