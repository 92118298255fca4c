/* Lines of the log: one event, one line, whatever is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/log.h"

static struct buf written;

static void take(const void *line, size_t length)
{
    buf_append(&written, line, length);
}

static int begin(void **state)
{
    (void)state;
    log_set_writer(take);
    log_set_level(LOG_LEVEL_INFO);
    log_set_format(LOG_JSON);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buf_free(&written);
    log_set_writer(NULL);
    log_set_level(LOG_LEVEL_WARN);
    return 0;
}

static const struct log_field fields[] = {
    {.name = "text", .text = "a \"b\"\n\x1b[1m\xff"},
    {.name = NULL, .text = "not there"},
    {.name = "number", .number = -7},
    {.name = "plain", .text = "x"},
    {.name = "empty", .text = ""},
};

static void json_takes_any_text(void **state)
{
    (void)state;
    log_event(LOG_LEVEL_INFO, "it\nhappened", fields, 5);
    assert_ptr_equal(strchr(buf_text(&written), '\n'),
                     buf_text(&written) + buf_length(&written) - 1);
    json_t *json = json_loads(buf_text(&written), 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "message")), "it\nhappened");
    assert_string_equal(json_string_value(json_object_get(json, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(json, "text")),
                        "a \"b\"\n\x1b[1m\xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_object_get(json, "number")), -7);
    json_decref(json);
}

static void console_keeps_to_one_line_without_control_characters(void **state)
{
    (void)state;
    log_set_format(LOG_CONSOLE);
    log_event(LOG_LEVEL_WARN, "it\nhappened", fields, 5);
    const char *text = buf_text(&written);
    assert_non_null(strstr(text, "msb: warn: it?happened text=\"a \\\"b\\\"\\u000a\\u001b[1m"));
    assert_non_null(strstr(text, " number=-7 plain=x empty=\"\"\n"));
    assert_ptr_equal(strchr(text, '\n'), text + buf_length(&written) - 1);
    assert_null(strchr(text, '\x1b'));
}

static void lines_above_the_level_are_dropped(void **state)
{
    (void)state;
    assert_false(log_takes(LOG_LEVEL_DEBUG));
    log_debug("not this");
    assert_int_equal(buf_length(&written), 0);
    log_error("but %s", "this");
    assert_non_null(strstr(buf_text(&written), "\"message\":\"but this\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(json_takes_any_text, begin, end),
        cmocka_unit_test_setup_teardown(console_keeps_to_one_line_without_control_characters, begin,
                                        end),
        cmocka_unit_test_setup_teardown(lines_above_the_level_are_dropped, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
