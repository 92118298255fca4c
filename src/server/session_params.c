#include "server/session_params.h"

#include <stdlib.h>
#include <string.h>

#include "server/rpc.h"

#define SECONDS_MAX (365ull * 24 * 3600)
#define OUTPUT_MAX (16u << 20)

static int read_session(struct session_request *request, const json_t *object, struct error *err)
{
    request->wait = true;
    return rpc_member_text(object, "session_id", &request->id, err) < 0 ||
                   rpc_member_text(object, "template", &request->template, err) < 0 ||
                   rpc_member_text(object, "image", &request->image, err) < 0 ||
                   rpc_member_text(object, "language", &request->language, err) < 0 ||
                   rpc_member_text(object, "flavor", &request->flavor, err) < 0 ||
                   rpc_member_text(object, "group", &request->group, err) < 0 ||
                   rpc_member_flag(object, "must_exist", &request->must_exist, err) < 0 ||
                   rpc_member_flag(object, "wait", &request->wait, err) < 0 ||
                   rpc_member_number(object, "session_timeout", SECONDS_MAX, &request->idle_s,
                                     err) < 0 ||
                   rpc_member_number(object, "lifetime", SECONDS_MAX, &request->lifetime_s, err) < 0
               ? -1
               : 0;
}

static int read_limits(struct policy_limits *limits, const json_t *object, struct error *err)
{
    limits->evict = true;
    return rpc_member_number(object, "max_sessions", UINT32_MAX, &limits->sessions, err) < 0 ||
                   rpc_member_number(object, "max_total_memory_mb", UINT32_MAX, &limits->memory_mb,
                                     err) < 0 ||
                   rpc_member_flag(object, "evict", &limits->evict, err) < 0
               ? -1
               : 0;
}

static int read_work(struct session_params *params, const json_t *object, struct error *err)
{
    uint64_t output = 0;
    struct run_work *work = &params->work;
    if (rpc_member_number(object, "timeout", SECONDS_MAX, &work->timeout_s, err) < 0 ||
        rpc_member_number(object, "max_output_bytes", OUTPUT_MAX, &output, err) < 0 ||
        rpc_member_flag(object, "files", &work->files, err) < 0 ||
        rpc_texts(object, "envs", &params->env, err) < 0 ||
        rpc_texts(object, "volumes", &params->volumes, err) < 0 ||
        rpc_texts(object, "args", &params->args, err) < 0)
        return -1;
    work->output_max = (size_t)output;
    work->env = params->env;
    params->request.volumes = params->volumes;
    return 0;
}

static int check_env(char *const *env, struct error *err)
{
    for (size_t i = 0; env && env[i]; i++) {
        if (!strchr(env[i], '=') || env[i][0] == '=')
            return error_set(err, ERROR_INVALID, "an entry of \"envs\" must be NAME=value");
    }
    return 0;
}

int session_params_read(struct session_params *params, const json_t *object,
                        struct session_failure *failure)
{
    struct error err;
    if (read_session(&params->request, object, &err) == 0 &&
        read_limits(&params->request.limits, object, &err) == 0 &&
        read_work(params, object, &err) == 0 && check_env(params->env, &err) == 0)
        return 0;
    return failure_wrap(failure, FAILURE_REQUEST, NULL, NULL, &err);
}

void session_params_free(struct session_params *params)
{
    free(params->volumes);
    free(params->env);
    free(params->args);
}
