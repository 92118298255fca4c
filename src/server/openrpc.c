/* The methods as an OpenRPC document, made from their table. */
#include <string.h>

#include "base/mem.h"
#include "server/rpc.h"

static json_t *schema_of(const struct rpc_param *param);

static json_t *schema_of_members(const struct rpc_param *members)
{
    json_t *properties = json_object();
    for (; members && members->name; members++) {
        json_t *schema = schema_of(members);
        json_object_set_new(schema, "description", json_string(members->about));
        json_object_set_new(properties, members->name, schema);
    }
    return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}

static json_t *schema_of(const struct rpc_param *param)
{
    switch (param->type) {
    case RPC_TEXT:
        return json_pack("{s:s}", "type", "string");
    case RPC_NUMBER:
        return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
    case RPC_FLAG:
        return json_pack("{s:s}", "type", "boolean");
    case RPC_TEXTS:
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    case RPC_OBJECT:
        return schema_of_members(param->members);
    }
    return json_object();
}

static void add_param(json_t *list, const struct rpc_param *param)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "name", param->name,
                                          "description", param->about, "required",
                                          (int)param->is_required, "schema", schema_of(param)));
}

static json_t *describe_params(const struct rpc_method *method)
{
    json_t *list = json_array();
    enum rpc_scope scope = method->scope;
    bool names_one = scope == RPC_ONE || scope == RPC_SPACE;
    if (scope == RPC_ONE || scope == RPC_MANY)
        add_param(list, &(struct rpc_param){"sandbox", RPC_TEXT, scope == RPC_ONE,
                                            "the sandbox's name", NULL});
    if (scope != RPC_NONE && scope != RPC_ALL)
        add_param(list, &(struct rpc_param){
                            "namespace", RPC_TEXT, false,
                            names_one ? "its namespace; that of the key, else default"
                                      : "a namespace, or * for all that the key is good for",
                            NULL});
    for (const struct rpc_param *param = method->params; param && param->name; param++)
        add_param(list, param);
    return list;
}

static json_t *describe_errors(void)
{
    static const char *const texts[] = {
        "the body is no JSON",
        "it is no JSON-RPC request",
        "there is no such method",
        "its parameters are wrong",
        "it could not be done; data.code says why",
        "the key is missing, wrong, or not good for the namespace",
        "there is no such sandbox",
        "there is one already, with another image",
    };
    json_t *errors = json_object();
    for (size_t i = 0; rpc_codes[i]; i++) {
        cleanup_free char *name = xasprintf("error%d", -(int)rpc_codes[i]);
        json_object_set_new(
            errors, name, json_pack("{s:i, s:s}", "code", (int)rpc_codes[i], "message", texts[i]));
    }
    return errors;
}

static json_t *describe_methods(void)
{
    json_t *methods = json_array();
    for (const struct rpc_method *method = rpc_methods; method->name; method++) {
        json_t *result = json_pack("{s:s, s:s, s:{}}", "name", "result", "description",
                                   method->result, "schema");
        json_array_append_new(methods,
                              json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", method->name,
                                        "summary", method->about, "paramStructure", "by-name",
                                        "params", describe_params(method), "result", result));
    }
    return methods;
}

static json_t *describe_all(void)
{
    return json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:o}}", "openrpc", "1.2.6", "info", "title",
                     "msb", "version", MSB_VERSION, "methods", describe_methods(), "components",
                     "errors", describe_errors());
}

void method_discover(struct rpc_call *call)
{
    rpc_succeed(call, describe_all());
}

void openrpc_handle(struct http_request *request)
{
    json_t *document = describe_all();
    cleanup_free char *text = json_dumps(document, JSON_INDENT(2));
    json_decref(document);
    http_answer(request, 200, "application/json", text, strlen(text));
}
