/* Arbitrary bytes as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_text.h"

static void assert_json(const char *bytes, size_t length, const char *expected)
{
    cleanup_buf struct buf buf = {0};
    json_text_append(&buf, bytes, length);
    assert_string_equal(buf_text(&buf), expected);
}

static void quotes_and_control_characters_are_escaped(void **state)
{
    (void)state;
    assert_json("", 0, "\"\"");
    assert_json("a b", 3, "\"a b\"");
    assert_json("\"\\/", 3, "\"\\\"\\\\/\"");
    assert_json("\n\x1b\x7f\0", 4, "\"\\u000a\\u001b\\u007f\\u0000\"");
}

static void well_formed_text_stays(void **state)
{
    static const char text[] = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
    (void)state;
    assert_json(text, sizeof text - 1, "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void every_byte_that_is_no_utf8_is_replaced(void **state)
{
    (void)state;
    assert_json("\xff", 1, "\"\xef\xbf\xbd\"");
    assert_json("\xc3", 1, "\"\xef\xbf\xbd\"");
    assert_json("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_json("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_json("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_json("a\xf4\x90\x80\x80z", 6, "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"");
}

static void cleaned_text_is_printable_utf8(void **state)
{
    char text[] = "a\nb\xff\x1b[m \xc3\xa4\xc3";
    (void)state;
    json_text_clean(text);
    assert_string_equal(text, "a?b??[m \xc3\xa4?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotes_and_control_characters_are_escaped),
        cmocka_unit_test(well_formed_text_stays),
        cmocka_unit_test(every_byte_that_is_no_utf8_is_replaced),
        cmocka_unit_test(cleaned_text_is_printable_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
