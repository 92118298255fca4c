/* Every kind of failure has all its members, and advice that fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/failure.h"

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    assert_non_null(text);
    return text;
}

static void every_kind_is_complete(void **state)
{
    (void)state;
    for (enum failure_kind kind = FAILURE_GENERAL; kind < FAILURE_KINDS; kind++) {
        struct session_failure failure = {0};
        error_set(&failure.cause, ERROR_IO, "something");
        assert_int_equal(failure_set(&failure, kind, NULL, "s"), -1);
        json_t *json = failure_json(&failure);
        assert_non_null(strstr(text_of(json, "error_code"), "_ERROR"));
        assert_true(strlen(text_of(json, "code")) > 0);
        assert_true(strlen(text_of(json, "category")) > 0);
        assert_true(strlen(text_of(json, "severity")) > 0);
        assert_string_equal(text_of(json, "message"), "something");
        assert_string_equal(text_of(json_object_get(json, "context"), "session_id"), "s");
        size_t advice = json_array_size(json_object_get(json, "recovery_suggestions"));
        assert_true(advice > 0 || kind == FAILURE_GENERAL);
        assert_in_range(failure_http_status(&failure), 400, 503);
        json_decref(json);
    }
}

static size_t count_advice(enum failure_kind kind, const char *detail)
{
    struct session_failure failure = {0};
    failure_set(&failure, kind, detail, NULL);
    json_t *json = failure_json(&failure);
    size_t count = json_array_size(json_object_get(json, "recovery_suggestions"));
    json_decref(json);
    return count;
}

static void advice_goes_with_the_detail(void **state)
{
    (void)state;
    assert_int_equal(count_advice(FAILURE_CREATION, NULL), 5);
    assert_int_equal(count_advice(FAILURE_CODE, "timeout"), 3);
    assert_int_equal(count_advice(FAILURE_CODE, "compilation"), 3);
    assert_int_equal(count_advice(FAILURE_CODE, "anything"), 3);
    assert_int_equal(count_advice(FAILURE_NO_SESSION, NULL), 4);
    assert_int_equal(count_advice(FAILURE_CONNECTION, NULL), 5);
}

static void limits_say_how_much(void **state)
{
    (void)state;
    struct session_failure failure = {0};
    failure_set(&failure, FAILURE_RESOURCE, "memory", NULL);
    failure.current = 3072;
    failure.limit = 4096;
    json_t *json = failure_json(&failure);
    const json_t *context = json_object_get(json, "context");
    assert_string_equal(text_of(json, "error_code"), "RESOURCE_LIMIT_ERROR");
    assert_string_equal(text_of(json, "code"), "resource_limit");
    assert_string_equal(text_of(context, "resource_type"), "memory");
    assert_int_equal(json_integer_value(json_object_get(context, "current_usage")), 3072);
    assert_int_equal(json_integer_value(json_object_get(context, "limit")), 4096);
    json_decref(json);
    failure_set(&failure, FAILURE_RESOURCE, "sessions", NULL);
    assert_string_equal(failure_short_code(&failure), "max_sessions");
}

static void long_code_is_cut_at_a_character(void **state)
{
    (void)state;
    struct session_failure failure = {0};
    char code[402];
    for (size_t i = 0; i < 400; i += 2)
        memcpy(code + 1 + i, "\xc3\xa4", 2);
    code[0] = 'x';
    code[401] = '\0';
    failure_set(&failure, FAILURE_CODE, "runtime", NULL);
    failure_set_subject(&failure, code);
    json_t *json = failure_json(&failure);
    assert_non_null(json);
    assert_int_equal(strlen(text_of(json_object_get(json, "context"), "code_snippet")), 199);
    json_decref(json);
}

static void texts_of_others_are_cleaned(void **state)
{
    (void)state;
    struct session_failure failure = {0};
    error_set(&failure.cause, ERROR_IO, "bad \xff\x1b[31m");
    failure_set(&failure, FAILURE_GENERAL, NULL, NULL);
    json_t *json = failure_json(&failure);
    assert_string_equal(text_of(json, "message"), "bad ??[31m");
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_complete),
        cmocka_unit_test(advice_goes_with_the_detail),
        cmocka_unit_test(limits_say_how_much),
        cmocka_unit_test(long_code_is_cut_at_a_character),
        cmocka_unit_test(texts_of_others_are_cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
