/* The one shape of errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void set_fills_code_and_message(void **state)
{
    struct error err = {.hint = "old"};
    (void)state;
    assert_true(error_set(&err, ERROR_LIMIT, "%d of %s", 3, "them") < 0);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_string_equal(err.message, "3 of them");
    assert_string_equal(err.hint, "");
}

static void errno_decides_the_code(void **state)
{
    struct error err;
    (void)state;
    assert_true(error_errno(&err, ENOENT, "cannot open %s", "x") < 0);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    assert_string_equal(err.message, "cannot open x: No such file or directory");
    assert_int_equal(error_code_from_errno(ENOSPC), ERROR_NO_SPACE);
    assert_int_equal(error_code_from_errno(EACCES), ERROR_DENIED);
    assert_int_equal(error_code_from_errno(EPIPE), ERROR_UNAVAILABLE);
    assert_int_equal(error_code_from_errno(12345), ERROR_IO);
}

static void wrap_puts_context_in_front(void **state)
{
    struct error err;
    (void)state;
    error_set(&err, ERROR_BUSY, "inner");
    assert_true(error_wrap(&err, "outer %d", 1) < 0);
    assert_string_equal(err.message, "outer 1: inner");
    assert_int_equal(err.code, ERROR_BUSY);
}

static void hint_nearest_to_the_cause_stays(void **state)
{
    struct error err;
    (void)state;
    error_set(&err, ERROR_IO, "x");
    assert_true(error_hint(&err, "first") < 0);
    assert_true(error_hint(&err, "second") < 0);
    assert_string_equal(err.hint, "first");
}

static void long_texts_are_cut(void **state)
{
    struct error err;
    char text[4 * sizeof err.message];
    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_errno(&err, ENOENT, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    error_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    error_hint(&err, "%s", text);
    assert_int_equal(strlen(err.hint), sizeof err.hint - 1);
}

static void names_and_codes_match(void **state)
{
    (void)state;
    for (int code = ERROR_NONE; code < ERROR_CODE_COUNT; code++)
        assert_int_equal(error_code_from_name(error_code_name((enum error_code)code)), code);
    assert_int_equal(error_code_from_name("no such name"), ERROR_IO);
    assert_string_equal(error_code_name((enum error_code)1000), "io");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_code_and_message),
        cmocka_unit_test(errno_decides_the_code),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(hint_nearest_to_the_cause_stays),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(names_and_codes_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
