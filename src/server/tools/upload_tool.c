/* sandbox_upload_file: looks whether the file is there before it writes. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "server/base64.h"
#include "server/tools/file_call.h"

#define NAME_MAX_LENGTH 255

static bool is_file_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_LENGTH || strstr(name, "..") || strcmp(name, ".") == 0)
        return false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            return false;
    }
    return true;
}

static void on_written(void *context, const struct file_result *result,
                       const struct session_failure *failure)
{
    struct file_call *work = context;
    file_call_end(work, result ? answer_data(json_pack("{s:s, s:s}", "session_id", work->session,
                                                       "path", work->path))
                               : answer_failure(failure));
}

static void on_looked(void *context, const struct file_result *result,
                      const struct session_failure *failure)
{
    struct file_call *work = context;
    if (result)
        file_call_refuse(work, FAILURE_REQUEST, "exists", "there is a file of that name already",
                         "use another name, or set \"overwrite\" to true");
    else if (failure->kind == FAILURE_NO_FILE)
        file_call_start(work, OP_FILE_WRITE, true, on_written);
    else
        file_call_end(work, answer_failure(failure));
}

/* False: the call is answered. */
static bool take_content(struct file_call *work, const json_t *arguments)
{
    const char *text = json_string_value(json_object_get(arguments, "content"));
    const json_t *encoded = json_object_get(arguments, "content_base64");
    uint64_t max = tools_server(work->call)->session_settings.max_upload;
    if (text && !encoded)
        buf_append_text(&work->content, text);
    if ((!text && !encoded) || (encoded && (!json_is_string(encoded) ||
                                            base64_take(&work->content, json_string_value(encoded),
                                                        json_string_length(encoded)) < 0))) {
        file_call_refuse(
            work, FAILURE_REQUEST, "content", "\"content_base64\" is no base64",
            "encode the whole content, without line ends, or give \"content\" as plain text");
        return false;
    }
    if (buf_length(&work->content) <= max)
        return true;
    file_call_refuse(work, FAILURE_UPLOAD_TOO_LARGE, NULL, "the file is too large",
                     "send a smaller one");
    return false;
}

void tool_upload_file(struct mcp_call *call, const json_t *arguments)
{
    struct file_call *work = file_call_begin(call, arguments, false);
    const char *name = json_string_value(json_object_get(arguments, "filename"));
    if (!work)
        return;
    if (!name || !is_file_name(name)) {
        file_call_refuse(work, FAILURE_REQUEST, "filename",
                         "\"filename\" cannot be the name of a file here",
                         "use letters, digits, dots, - and _, without folders");
        return;
    }
    if (!take_content(work, arguments))
        return;
    work->path = xstrdup(name);
    if (!work->session)
        work->session = tools_new_session();
    if (json_is_true(json_object_get(arguments, "overwrite")))
        file_call_start(work, OP_FILE_WRITE, false, on_written);
    else
        file_call_start(work, OP_FILE_STAT, false, on_looked);
}
