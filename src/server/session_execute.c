/* …/sandbox/execute */
#include <string.h>

#include "server/rest.h"
#include "server/rpc.h"
#include "server/session_output.h"
#include "server/session_pictures.h"

static void on_left(struct rest *rest)
{
    session_run_abandon(rest->context);
}

/* Time that was over and memory that ran out are told as the code's own errors are. */
static void on_ended(void *context, const struct run_result *result,
                     const struct session_failure *failure)
{
    struct rest *rest = context;
    const char *images = json_string_value(json_object_get(rest->body, "images"));
    if (result)
        http_add_timing(rest->request, "inside", result->duration_us);
    json_t *answer = result ? output_of_run(rest->request, rest->namespace, result) : NULL;
    if (!answer)
        rest_fail(rest, failure);
    else if (images && strcmp(images, "url") == 0)
        pictures_save(rest, answer, result->run_id);
    else
        rest_answer(rest, answer);
}

void session_rest_execute(struct http_request *request)
{
    struct session_failure failure;
    struct error err;
    struct rest *rest = rest_begin(request);
    if (!rest)
        return;
    struct run_work *work = &rest->params.work;
    int result = rpc_member_text(rest->body, "code", &work->code, &err);
    if (result == 0 && !work->code)
        result = error_set(&err, ERROR_INVALID, "\"code\" is missing");
    if (result < 0) {
        failure_wrap(&failure, FAILURE_REQUEST, NULL, rest->id, &err);
        rest_fail(rest, &failure);
        return;
    }
    work->language = rest->params.request.language;
    work->files = true;
    rest->context = session_run_start(rest->server->sessions, &rest->params.request, work, on_ended,
                                      rest, &failure);
    rest->left = on_left;
    if (!rest->context)
        rest_fail(rest, &failure);
}
