/* The sandbox of a path: /…/{namespace}/{name}/… */
#include <string.h>

#include "sandbox/config.h"
#include "server/context.h"
#include "server/keys.h"
#include "server/record.h"

static int check(struct http_request *request, const char *namespace, const char *name,
                 struct error *err)
{
    if (sandbox_check_name("namespace", namespace, err) < 0 ||
        sandbox_check_name("sandbox name", name, err) < 0)
        return -1;
    if (strcmp(request->scope, KEY_ALL_NAMESPACES) == 0 || strcmp(request->scope, namespace) == 0) {
        record_note(request, namespace, name);
        return 0;
    }
    error_set(err, ERROR_DENIED, "this key is not good for namespace %s", namespace);
    return error_hint(err, "use a key that is good for it");
}

struct box *path_box(struct http_request *request)
{
    const char *namespace = http_parameter(request, "namespace");
    const char *name = http_parameter(request, "name");
    struct server *server = request->server->context;
    struct error err;
    struct box *box = NULL;
    if (check(request, namespace, name, &err) == 0)
        box = boxes_find(&server->boxes, namespace, name, &err);
    if (!box)
        http_answer_failure(request, &err);
    return box;
}
