/* Options of commands: shapes, units and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/command.h"

static struct {
    bool flag;
    const char *text;
    char **list;
    unsigned count, megabytes;
    uint64_t ms, bytes;
} got;

static const struct option table[] = {
    {'f', "flag", OPTION_FLAG, &got.flag, NULL, ""},
    {'t', "text", OPTION_TEXT, &got.text, "TEXT", ""},
    {'l', "list", OPTION_LIST, &got.list, "TEXT", ""},
    {0, "count", OPTION_COUNT, &got.count, "N", ""},
    {'m', "memory", OPTION_MEGABYTE, &got.megabytes, "MB", ""},
    {'b', "bytes", OPTION_BYTES, &got.bytes, "BYTES", ""},
    {0, "time", OPTION_SECONDS, &got.ms, "S", ""},
    {0},
};

static const struct command command = {.name = "try", .options = table};

static struct arguments arguments;
static struct error err;

static int reset(void **state)
{
    (void)state;
    memset(&got, 0, sizeof got);
    return 0;
}

static int release(void **state)
{
    (void)state;
    strv_free(got.list);
    free(arguments.words);
    arguments.words = NULL;
    return 0;
}

/* The words stay: what was parsed points into them. */
static int parse(char **words)
{
    int count = 0;
    while (words[count])
        count++;
    free(arguments.words);
    return command_parse(&command, count, words, &arguments, &err);
}

#define parse_words(...) parse((char *[]){__VA_ARGS__, NULL})

static void options_have_three_shapes(void **state)
{
    (void)state;
    assert_int_equal(parse_words("--text", "a", "-f", "-l", "one", "--list=two", "-lthree"), 0);
    assert_string_equal(got.text, "a");
    assert_true(got.flag);
    assert_int_equal(strv_length(got.list), 3);
    assert_string_equal(got.list[1], "two");
    assert_string_equal(got.list[2], "three");
}

static void words_and_options_mix(void **state)
{
    (void)state;
    assert_int_equal(parse_words("image", "-f", "-", "--text", "-x"), 0);
    assert_int_equal(arguments.count, 2);
    assert_string_equal(arguments.words[0], "image");
    assert_string_equal(arguments.words[1], "-");
    assert_string_equal(got.text, "-x");
    assert_null(arguments.command);
}

static void nothing_is_an_option_behind_two_dashes(void **state)
{
    static char *words[] = {"image", "--", "ls", "--text", "--", NULL};
    (void)state;
    assert_int_equal(parse(words), 0);
    assert_int_equal(arguments.count, 1);
    assert_ptr_equal(arguments.command, words + 2);
    assert_null(got.text);
}

static void empty_values_are_values(void **state)
{
    (void)state;
    assert_int_equal(parse_words("--text="), 0);
    assert_string_equal(got.text, "");
}

static void megabytes_have_units(void **state)
{
    (void)state;
    assert_int_equal(parse_words("-m", "512"), 0);
    assert_int_equal(got.megabytes, 512);
    assert_int_equal(parse_words("-m512M"), 0);
    assert_int_equal(got.megabytes, 512);
    assert_int_equal(parse_words("--memory=2g"), 0);
    assert_int_equal(got.megabytes, 2048);
}

static void bytes_have_units(void **state)
{
    static const struct {
        char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0}, {"1000", 1000}, {"64K", 65536}, {"3m", 3u << 20}, {"8G", 8ull << 30}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(parse_words("--bytes", sizes[i].text), 0);
        assert_true(got.bytes == sizes[i].bytes);
    }
}

static void seconds_have_units(void **state)
{
    static const struct {
        char *text;
        uint64_t ms;
    } times[] = {{"30", 30000}, {"1.5", 1500}, {"0.25s", 250}, {"5m", 300000}, {"2h", 7200000}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(parse_words("--time", times[i].text), 0);
        assert_true(got.ms == times[i].ms);
    }
}

static void values_that_make_no_sense_are_refused(void **state)
{
    static char *const bad[] = {
        "--memory=",     "--memory=-1",        "--memory=x",     "--memory=1T",
        "--memory=1.5G", "--memory=1GB",       "--memory= 5",    "--memory=99999999999999999999",
        "--count=",      "--count=-1",         "--count=+1",     "--count=1.5",
        "--count=x",     "--count=4294967297", "--time=",        "--time=0",
        "--time=-1",     "--time=x",           "--time=1d",      "--time=nan",
        "--time=inf",    "--time=1e99",        "--time=0.00001", "--memory=4194305G",
        "--bytes=",      "--bytes=-1",         "--bytes=1T",     "--bytes=9223372036854775807K",
        "--bytes=1KB",   "--bytes=1.5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse_words(bad[i]) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(err.code, ERROR_INVALID);
    }
}

static void unknown_and_incomplete_options_are_refused(void **state)
{
    (void)state;
    assert_true(parse_words("--nothing") < 0);
    assert_non_null(strstr(err.message, "--nothing"));
    assert_true(parse_words("-x") < 0);
    assert_true(parse_words("--tex", "a") < 0);
    assert_true(parse_words("--textual=a") < 0);
    assert_true(parse_words("--text") < 0);
    assert_non_null(strstr(err.message, "needs a value"));
    assert_true(parse_words("--flag=yes") < 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, reset, release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(options_have_three_shapes),
        test(words_and_options_mix),
        test(nothing_is_an_option_behind_two_dashes),
        test(empty_values_are_values),
        test(megabytes_have_units),
        test(bytes_have_units),
        test(seconds_have_units),
        test(values_that_make_no_sense_are_refused),
        test(unknown_and_incomplete_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
