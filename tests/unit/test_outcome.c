/* How operations end, over the wire and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/fields.h"
#include "proto/outcome.h"
#include "proto/protocol.h"

static struct outcome pass_through(const struct outcome *sent)
{
    cleanup_buf struct buf buf = {0};
    struct frame frame;
    struct outcome got;
    struct error err;
    outcome_append(&buf, 9, sent);
    assert_int_equal(frame_decode(&buf, &frame, &err), buf_length(&buf));
    assert_int_equal(frame.type, FRAME_END);
    assert_int_equal(frame.stream, 9);
    assert_int_equal(outcome_read(&frame, &got, &err), 0);
    return got;
}

static void every_verdict_passes(void **state)
{
    (void)state;
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        struct outcome got = pass_through(&(struct outcome){.verdict = (enum verdict)verdict});
        assert_int_equal(got.verdict, verdict);
        outcome_free(&got);
    }
}

static void everything_passes(void **state)
{
    struct outcome sent = {.verdict = VERDICT_ERROR,
                           .exit_code = 127,
                           .signal = 9,
                           .duration_us = 1ull << 40,
                           .state_lost = true,
                           .count = 3,
                           .output_bytes = 1ull << 33,
                           .killed = "python3",
                           .error = {.code = ERROR_NO_SPACE, .message = "full", .hint = "empty"},
                           .status = "{}"};
    (void)state;
    struct outcome got = pass_through(&sent);
    assert_int_equal(got.exit_code, 127);
    assert_int_equal(got.signal, 9);
    assert_true(got.duration_us == 1ull << 40);
    assert_true(got.state_lost);
    assert_true(got.count == 3);
    assert_true(got.output_bytes == 1ull << 33);
    assert_string_equal(got.killed, "python3");
    assert_int_equal(got.error.code, ERROR_NO_SPACE);
    assert_string_equal(got.error.message, "full");
    assert_string_equal(got.error.hint, "empty");
    assert_string_equal(got.status, "{}");
    outcome_free(&got);
}

static int read_fields(const struct buf *fields, struct outcome *got)
{
    struct error err;
    struct frame frame = {
        .type = FRAME_END, .payload = buf_data(fields), .length = (uint32_t)buf_length(fields)};
    return outcome_read(&frame, got, &err);
}

static void unknown_verdict_is_an_error(void **state)
{
    cleanup_buf struct buf fields = {0};
    struct outcome got;
    (void)state;
    fields_add_text(&fields, TAG_VERDICT, "splendid");
    assert_int_equal(read_fields(&fields, &got), 0);
    assert_int_equal(got.verdict, VERDICT_ERROR);
    outcome_free(&got);
}

static void unknown_fields_are_skipped(void **state)
{
    cleanup_buf struct buf fields = {0};
    struct outcome got;
    (void)state;
    fields_add_text(&fields, 250, "from the future");
    fields_add_number(&fields, TAG_EXIT_CODE, 3);
    assert_int_equal(read_fields(&fields, &got), 0);
    assert_int_equal(got.exit_code, 3);
    outcome_free(&got);
}

static void long_and_repeated_fields_are_bounded(void **state)
{
    cleanup_buf struct buf fields = {0};
    cleanup_free char *text = xmalloc(5001);
    struct outcome got;
    (void)state;
    memset(text, 'a', 5000);
    text[5000] = '\0';
    fields_add_text(&fields, TAG_MESSAGE, text);
    fields_add_text(&fields, TAG_HINT, text);
    fields_add_text(&fields, TAG_ERROR_CODE, text);
    fields_add_text(&fields, TAG_STATUS, "first");
    fields_add_text(&fields, TAG_STATUS, "second");
    fields_add_number(&fields, TAG_EXIT_CODE, UINT64_MAX);
    assert_int_equal(read_fields(&fields, &got), 0);
    assert_int_equal(strlen(got.error.message), sizeof got.error.message - 1);
    assert_int_equal(strlen(got.error.hint), sizeof got.error.hint - 1);
    assert_string_equal(got.status, "second");
    assert_true(got.exit_code >= 0);
    outcome_free(&got);
}

static void names_from_inside_cannot_steer_a_terminal(void **state)
{
    (void)state;
    struct outcome got = pass_through(&(struct outcome){.killed = "a\x1b[2Jb"});
    assert_string_equal(got.killed, "a?[2Jb");
    outcome_free(&got);
}

static void broken_fields_are_refused(void **state)
{
    cleanup_buf struct buf fields = {0};
    struct outcome got;
    (void)state;
    fields_add_text(&fields, TAG_STATUS, "kept until freed");
    fields_add_text(&fields, TAG_EXIT_CODE, "three");
    assert_true(read_fields(&fields, &got) < 0);
    outcome_free(&got);
}

static void failure_becomes_an_outcome(void **state)
{
    struct error err;
    (void)state;
    error_set(&err, ERROR_DENIED, "no");
    struct outcome outcome = outcome_error(&err);
    assert_int_equal(outcome.verdict, VERDICT_ERROR);
    assert_int_equal(outcome.error.code, ERROR_DENIED);
    assert_int_not_equal(outcome.exit_code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_passes),
        cmocka_unit_test(everything_passes),
        cmocka_unit_test(unknown_verdict_is_an_error),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(long_and_repeated_fields_are_bounded),
        cmocka_unit_test(names_from_inside_cannot_steer_a_terminal),
        cmocka_unit_test(broken_fields_are_refused),
        cmocka_unit_test(failure_becomes_an_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
