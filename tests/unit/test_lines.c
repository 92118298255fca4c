#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/lines.h"

static void take(struct lines *lines, enum channel channel, const char *text)
{
    lines_take(lines, channel, text, strlen(text));
}

static void assert_lines(struct lines *lines, const char *expected)
{
    lines_finish(lines);
    assert_string_equal(buf_text(&lines->json), expected);
    lines_free(lines);
}

static void pieces_become_lines(void **state)
{
    (void)state;
    struct lines lines = {0};
    take(&lines, CHANNEL_STDOUT, "a");
    take(&lines, CHANNEL_STDERR, "e\n");
    take(&lines, CHANNEL_STDOUT, "b\n\nc");
    assert_lines(&lines, "{\"stream\":\"stderr\",\"text\":\"e\"},{\"stream\":\"stdout\",\"text\":"
                         "\"ab\"},{\"stream\":\"stdout\",\"text\":\"\"},{\"stream\":\"stdout\","
                         "\"text\":\"c\"}");
}

static void characters_may_be_cut_between_pieces(void **state)
{
    (void)state;
    struct lines lines = {0};
    take(&lines, CHANNEL_STDOUT, "\xc3");
    take(&lines, CHANNEL_STDOUT, "\xa4\"\n");
    assert_false(lines.invalid);
    assert_lines(&lines, "{\"stream\":\"stdout\",\"text\":\"\xc3\xa4\\\"\"}");
}

static void what_is_no_utf8_is_replaced_and_told(void **state)
{
    (void)state;
    struct lines lines = {0};
    take(&lines, CHANNEL_STDOUT, "a\xff\n");
    assert_true(lines.invalid);
    assert_lines(&lines, "{\"stream\":\"stdout\",\"text\":\"a\xef\xbf\xbd\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_become_lines),
        cmocka_unit_test(characters_may_be_cut_between_pieces),
        cmocka_unit_test(what_is_no_utf8_is_replaced_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
