#include "session/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/utf8.h"

#define SUGGESTIONS 7

static const struct kind {
    const char *error_code, *category, *severity;
    const char *code; /* the short one */
    const char *detail_key, *subject_key;
    int status;
} kinds[FAILURE_KINDS] = {
    [FAILURE_GENERAL] = {"MICROSANDBOX_WRAPPER_ERROR", "system", "medium", "internal_error", NULL,
                         NULL, 500},
    [FAILURE_CREATION] = {"SANDBOX_CREATION_ERROR", "resource", "high", "sandbox_unavailable", NULL,
                          "template", 503},
    [FAILURE_CODE] = {"CODE_EXECUTION_ERROR", "execution", "medium", "execution_failed",
                      "error_type", "code_snippet", 500},
    [FAILURE_COMMAND] = {"COMMAND_EXECUTION_ERROR", "execution", "medium", "execution_failed",
                         "error_type", "command", 500},
    [FAILURE_RESOURCE] = {"RESOURCE_LIMIT_ERROR", "resource", "high", "max_sessions",
                          "resource_type", NULL, 429},
    [FAILURE_NO_SESSION] = {"SESSION_NOT_FOUND_ERROR", "session", "low", "session_not_found", NULL,
                            NULL, 404},
    [FAILURE_BUSY] = {"SESSION_BUSY_ERROR", "session", "low", "session_busy", NULL, NULL, 409},
    [FAILURE_CONFIGURATION] = {"CONFIGURATION_ERROR", "configuration", "high",
                               "invalid_configuration", NULL, "config_key", 400},
    [FAILURE_CONNECTION] = {"CONNECTION_ERROR", "network", "high", "sandbox_unavailable", NULL,
                            NULL, 503},
    [FAILURE_REQUEST] = {"INVALID_REQUEST_ERROR", "configuration", "low", "invalid_request", NULL,
                         NULL, 400},
    [FAILURE_DENIED] = {"ACCESS_DENIED_ERROR", "configuration", "medium", "access_denied", NULL,
                        NULL, 403},
    [FAILURE_NO_FILE] = {"FILE_NOT_FOUND_ERROR", "session", "low", "not_found", NULL, "path", 404},
    [FAILURE_FILE_TOO_LARGE] = {"FILE_TOO_LARGE_ERROR", "resource", "low", "artifact_too_large",
                                NULL, "path", 413},
    [FAILURE_UPLOAD_TOO_LARGE] = {"UPLOAD_TOO_LARGE_ERROR", "resource", "low", "upload_too_large",
                                  NULL, "path", 413},
};

/* The first row that fits kind and detail; a row without a detail fits every one. */
static const struct advice {
    enum failure_kind kind;
    const char *detail;
    const char *suggestions[SUGGESTIONS];
} advices[] = {
    {FAILURE_CREATION,
     NULL,
     {"Check that the server is healthy: GET /api/v1/health",
      "Check that the template or image is one that this server has",
      "Check that the host has free resources, and stop sessions that are not needed",
      "Try a smaller flavor",
      "When the image is built or pulled for the first time, check that its sources can be "
      "reached, "
      "and allow for more time with MSB_SANDBOX_START_TIMEOUT"}},
    {FAILURE_CODE,
     "compilation",
     {"Check the syntax of the code", "Check brackets, quotes and indentation",
      "Check that the template is for this language"}},
    {FAILURE_CODE,
     "timeout",
     {"Make the work smaller, or split it into several calls",
      "Give the call more time with \"timeout\", or all calls with MSB_EXECUTION_TIMEOUT",
      "Look for loops that do not end"}},
    {FAILURE_CODE,
     "memory",
     {"Work on less data at a time", "Use a larger flavor",
      "Delete variables that are not needed any more"}},
    {FAILURE_CODE,
     NULL,
     {"Look at the error and correct the code", "Check that packages and files it uses are there",
      "Print values on the way to find the place"}},
    {FAILURE_COMMAND,
     "not_found",
     {"Check the spelling of the command", "Check that the program is installed in the sandbox",
      "Give its whole path"}},
    {FAILURE_COMMAND,
     "not_executable",
     {"Check that the file may be executed: chmod +x", "Run it by its interpreter",
      "Check that it is a program and no folder"}},
    {FAILURE_COMMAND,
     "timeout",
     {"Give the call more time with \"timeout\"", "Run it in the background",
      "Check that it does not wait for input"}},
    {FAILURE_COMMAND,
     NULL,
     {"Check the command and its arguments", "Look at what it wrote to stderr",
      "Check that the files it uses are there"}},
    {FAILURE_RESOURCE,
     "sessions",
     {"Stop sessions that are not needed any more", "Reuse a session by its id",
      "Wait for idle sessions to end", "Raise MSB_MAX_SESSIONS",
      "Switch on MSB_ENABLE_LRU_EVICTION"}},
    {FAILURE_RESOURCE,
     "memory",
     {"Use a smaller flavor", "Stop sessions that are not needed any more",
      "Raise MSB_MAX_TOTAL_MEMORY_MB"}},
    {FAILURE_RESOURCE,
     NULL,
     {"Stop sessions that are not needed any more", "Try again in a moment"}},
    {FAILURE_NO_SESSION,
     NULL,
     {"Check the session id", "List the sessions to see which there are",
      "It may have ended after its idle time or lifetime",
      "Leave the id out to get a new session"}},
    {FAILURE_BUSY,
     NULL,
     {"Wait for the call that runs to end", "Ask for the call to wait its turn",
      "Use another session for work at the same time"}},
    {FAILURE_CONFIGURATION,
     NULL,
     {"Correct the setting that the message names", "Leave it out to have its default"}},
    {FAILURE_CONNECTION,
     NULL,
     {"Try again: the next call starts the sandbox anew", "Check that the server is healthy",
      "Check how much memory the code uses", "Look at the log of the server",
      "Check that nobody stopped the sandbox"}},
    {FAILURE_REQUEST, NULL, {"Correct what the message names"}},
    {FAILURE_DENIED, NULL, {"Use a key that is good for this"}},
    {FAILURE_NO_FILE,
     NULL,
     {"List the files to see which there are", "Check that the path is within the data folder"}},
    {FAILURE_FILE_TOO_LARGE, NULL, {"Read it in parts, with a Range header"}},
    {FAILURE_UPLOAD_TOO_LARGE, NULL, {"Split the file", "Raise MSB_MAX_UPLOAD_BYTES"}},
};

int failure_set(struct session_failure *failure, enum failure_kind kind, const char *detail,
                const char *session_id)
{
    failure->kind = kind;
    failure->detail = detail;
    failure->subject[0] = '\0';
    failure->flavor = NULL;
    failure->current = failure->limit = 0;
    failure->exit_code = 0;
    snprintf(failure->session_id, sizeof failure->session_id, "%s", session_id ? session_id : "");
    return -1;
}

static enum failure_kind kind_of(enum error_code code)
{
    switch (code) {
    case ERROR_INVALID:
        return FAILURE_REQUEST;
    case ERROR_NOT_FOUND:
        return FAILURE_NO_FILE;
    case ERROR_DENIED:
        return FAILURE_DENIED;
    case ERROR_BUSY:
        return FAILURE_BUSY;
    case ERROR_UNAVAILABLE:
    case ERROR_PROTOCOL:
        return FAILURE_CONNECTION;
    case ERROR_NO_SPACE:
    case ERROR_LIMIT:
        return FAILURE_RESOURCE;
    default:
        return FAILURE_GENERAL;
    }
}

int failure_wrap(struct session_failure *failure, enum failure_kind kind, const char *detail,
                 const char *session_id, const struct error *cause)
{
    failure->cause = *cause;
    return failure_set(failure, kind ? kind : kind_of(cause->code), detail, session_id);
}

int failure_no_session(struct session_failure *failure, const char *session_id)
{
    error_set(&failure->cause, ERROR_NOT_FOUND, "there is no session %s", session_id);
    return failure_set(failure, FAILURE_NO_SESSION, NULL, session_id);
}

void failure_set_subject(struct session_failure *failure, const char *text)
{
    size_t length = strlen(text), most = sizeof failure->subject - 1;
    if (length > most)
        length = most - utf8_unfinished((const uint8_t *)text, most);
    memcpy(failure->subject, text, length);
    failure->subject[length] = '\0';
}

static json_t *suggestions(const struct session_failure *failure)
{
    json_t *list = json_array();
    if (failure->cause.hint[0])
        json_array_append_new(list, json_string(failure->cause.hint));
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++) {
        const struct advice *advice = &advices[i];
        if (advice->kind != failure->kind ||
            (advice->detail && (!failure->detail || strcmp(advice->detail, failure->detail) != 0)))
            continue;
        for (size_t k = 0; k < SUGGESTIONS && advice->suggestions[k]; k++)
            json_array_append_new(list, json_string(advice->suggestions[k]));
        break;
    }
    return list;
}

static json_t *context_of(const struct session_failure *failure, const struct kind *kind)
{
    json_t *context = json_object();
    if (failure->session_id[0])
        json_object_set_new(context, "session_id", json_string(failure->session_id));
    if (kind->detail_key && failure->detail)
        json_object_set_new(context, kind->detail_key, json_string(failure->detail));
    if (kind->subject_key && failure->subject[0])
        json_object_set_new(context, kind->subject_key, json_string(failure->subject));
    if (failure->flavor)
        json_object_set_new(context, "flavor", json_string(failure->flavor));
    if (failure->kind == FAILURE_COMMAND)
        json_object_set_new(context, "exit_code", json_integer(failure->exit_code));
    if (failure->limit) {
        json_object_set_new(context, "current_usage", json_integer((json_int_t)failure->current));
        json_object_set_new(context, "limit", json_integer((json_int_t)failure->limit));
    }
    return context;
}

json_t *failure_json(const struct session_failure *failure)
{
    struct session_failure clean = *failure;
    const struct kind *kind = &kinds[failure->kind];
    json_text_clean(clean.cause.message);
    json_text_clean(clean.cause.hint);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "error_code", kind->error_code,
                     "code", failure_short_code(failure), "message", clean.cause.message,
                     "category", kind->category, "severity", kind->severity, "context",
                     context_of(&clean, kind), "recovery_suggestions", suggestions(&clean),
                     "original_error", error_code_name(failure->cause.code));
}

const char *failure_short_code(const struct session_failure *failure)
{
    static const struct {
        const char *detail, *code;
    } details[] = {{"session_id", "invalid_session_id"}, {"path", "invalid_path"},
                   {"filename", "invalid_filename"},     {"content", "invalid_content"},
                   {"code_size", "code_too_large"},      {"exists", "file_exists"}};
    if (failure->kind == FAILURE_RESOURCE &&
        (!failure->detail || strcmp(failure->detail, "sessions") != 0))
        return "resource_limit";
    bool is_request = failure->kind == FAILURE_REQUEST && failure->detail;
    for (size_t i = 0; is_request && i < sizeof details / sizeof details[0]; i++) {
        if (strcmp(details[i].detail, failure->detail) == 0)
            return details[i].code;
    }
    return kinds[failure->kind].code;
}

int failure_http_status(const struct session_failure *failure)
{
    return kinds[failure->kind].status;
}
