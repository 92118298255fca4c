/* Answers of runs and commands. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct msb_result {
    json_t *answer;
    char *json;
    char *out, *err;
};

/* What was printed on a stream: a text of its own in answers of sessions, lines in others. */
static char *collect(const json_t *answer, const char *stream)
{
    const char *whole = json_string_value(json_object_get(answer, stream));
    const json_t *lines = json_object_get(answer, "output");
    size_t length = 0;
    if (whole)
        return strdup(whole);
    for (size_t i = 0; i < json_array_size(lines); i++)
        length += json_string_length(json_object_get(json_array_get(lines, i), "text")) + 1;
    char *text = malloc(length + 1), *end = text;
    for (size_t i = 0; text && i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        const json_t *content = json_object_get(line, "text");
        const char *theirs = json_string_value(json_object_get(line, "stream"));
        if (!theirs || strcmp(theirs, stream) != 0)
            continue;
        memcpy(end, json_string_value(content), json_string_length(content));
        end += json_string_length(content);
        *end++ = '\n';
    }
    if (text)
        *end = '\0';
    return text;
}

struct msb_result *msb_make_result(json_t *answer)
{
    struct msb_result *result = calloc(1, sizeof *result);
    if (!result) {
        json_decref(answer);
        return NULL;
    }
    result->answer = answer;
    result->json = json_dumps(answer, JSON_COMPACT);
    result->out = collect(answer, "stdout");
    result->err = collect(answer, "stderr");
    return result;
}

bool msb_result_succeeded(const struct msb_result *result)
{
    const json_t *success = json_object_get(result->answer, "success");
    const char *status = json_string_value(json_object_get(result->answer, "status"));
    return success ? json_is_true(success) : status && strcmp(status, "success") == 0;
}

const char *msb_result_stdout(const struct msb_result *result)
{
    return result->out ? result->out : "";
}

const char *msb_result_stderr(const struct msb_result *result)
{
    return result->err ? result->err : "";
}

int msb_result_exit_code(const struct msb_result *result)
{
    const json_t *code = json_object_get(result->answer, "exit_code");
    if (json_is_integer(code) && (json_integer_value(code) != 0 || msb_result_succeeded(result)))
        return (int)json_integer_value(code);
    return msb_result_succeeded(result) ? 0 : 1;
}

const char *msb_result_session(const struct msb_result *result)
{
    const char *id = json_string_value(json_object_get(result->answer, "session_id"));
    return id ? id : "";
}

const char *msb_result_json(const struct msb_result *result)
{
    return result->json ? result->json : "{}";
}

void msb_result_free(struct msb_result *result)
{
    if (!result)
        return;
    json_decref(result->answer);
    free(result->json);
    free(result->out);
    free(result->err);
    free(result);
}
