#include "server/rest.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/config.h"
#include "server/keys.h"

/* Of sessions that are made here, unless the settings say otherwise. */
#define LIFETIME_S 7200

char *rest_namespace(const struct http_request *request, struct session_failure *failure)
{
    struct error err;
    bool all = strcmp(request->scope, KEY_ALL_NAMESPACES) == 0;
    char *given = http_query(request, "namespace");
    char *namespace = given ? given : xstrdup(all ? SANDBOX_DEFAULT_NAMESPACE : request->scope);
    int result = sandbox_check_name("namespace", namespace, &err);
    if (result == 0 && !all && strcmp(namespace, request->scope) != 0) {
        result = error_set(&err, ERROR_DENIED, "this key is not good for namespace %s", namespace);
        error_hint(&err, "leave the namespace out, or use a key that is good for it");
    }
    if (result == 0)
        return namespace;
    failure_wrap(failure, FAILURE_NONE, NULL, NULL, &err);
    free(namespace);
    return NULL;
}

uint64_t rest_lifetime(const struct server *server)
{
    uint64_t set = server->session_settings.lifetime_s;
    return set ? set : LIFETIME_S;
}

void rest_refuse(struct http_request *request, const struct session_failure *failure)
{
    http_answer_json(request, failure_http_status(failure),
                     json_pack("{s:o}", "error", failure_json(failure)));
}

static void rest_free(struct rest *rest)
{
    session_params_free(&rest->params);
    json_decref(rest->body);
    free(rest->namespace);
    free(rest->id);
    free(rest);
}

void rest_answer(struct rest *rest, json_t *answer)
{
    struct http_request *request = rest->request;
    rest_free(rest);
    http_answer_json(request, 200, answer);
}

void rest_fail(struct rest *rest, const struct session_failure *failure)
{
    struct http_request *request = rest->request;
    rest_free(rest);
    rest_refuse(request, failure);
}

static void on_gone(struct http_request *request)
{
    struct rest *rest = request->context;
    if (rest->left)
        rest->left(rest);
    rest_free(rest);
}

static int read_body(struct rest *rest, struct session_failure *failure)
{
    struct buf *body = &rest->request->body;
    json_error_t problem;
    if (buf_length(body) == 0) {
        rest->body = json_object();
        return 0;
    }
    rest->body = json_loadb((const char *)buf_data(body), buf_length(body), JSON_REJECT_DUPLICATES,
                            &problem);
    buf_free(body);
    if (json_is_object(rest->body))
        return 0;
    error_set(&failure->cause, ERROR_INVALID, "the body must be one JSON object");
    return failure_set(failure, FAILURE_REQUEST, "content", NULL);
}

static int read_request(struct rest *rest, struct session_failure *failure)
{
    rest->namespace = rest_namespace(rest->request, failure);
    if (!rest->namespace || session_check_id(rest->id, failure) < 0 ||
        read_body(rest, failure) < 0 || session_params_read(&rest->params, rest->body, failure) < 0)
        return -1;
    struct session_request *request = &rest->params.request;
    request->namespace = rest->namespace;
    request->id = rest->id;
    if (request->lifetime_s == 0)
        request->lifetime_s = rest_lifetime(rest->server);
    return 0;
}

struct rest *rest_begin(struct http_request *request)
{
    struct session_failure failure;
    struct rest *rest = xcalloc(1, sizeof *rest);
    rest->request = request;
    rest->began = clock_monotonic_ms();
    rest->server = request->server->context;
    rest->id = xstrdup(http_parameter(request, "session_id"));
    request->context = rest;
    request->gone = on_gone;
    if (read_request(rest, &failure) == 0)
        return rest;
    rest_fail(rest, &failure);
    return NULL;
}
