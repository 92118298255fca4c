#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void check_valid(const char *bytes, const char *expected, size_t wrong)
{
    cleanup_buf struct buf out = {0};
    assert_int_equal(utf8_append_valid(&out, (const uint8_t *)bytes, strlen(bytes)), wrong);
    assert_string_equal(buf_text(&out), expected);
}

static void text_stays_and_the_rest_is_replaced(void **state)
{
    (void)state;
    check_valid("", "", 0);
    check_valid("plain", "plain", 0);
    check_valid("ä€𝄞", "ä€𝄞", 0);
    check_valid("a\xff"
                "b",
                "a\xef\xbf\xbd"
                "b",
                1);
    check_valid("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3);
    check_valid("\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd", 2);
    check_valid("end\xe2\x82", "end\xef\xbf\xbd\xef\xbf\xbd", 2);
}

static void check_unfinished(const char *bytes, size_t expected)
{
    assert_int_equal(utf8_unfinished((const uint8_t *)bytes, strlen(bytes)), expected);
}

static void the_front_of_a_character_is_found(void **state)
{
    (void)state;
    check_unfinished("", 0);
    check_unfinished("a", 0);
    check_unfinished("€", 0);
    check_unfinished("a\xc3", 1);
    check_unfinished("a\xe2\x82", 2);
    check_unfinished("\xf0\x9d\x84", 3);
    check_unfinished("𝄞", 0);
    check_unfinished("\xff", 0);
    check_unfinished("\x80\x80\x80\x80", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays_and_the_rest_is_replaced),
        cmocka_unit_test(the_front_of_a_character_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
