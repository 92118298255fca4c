/* Fields inside frames, also from somebody who lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/fields.h"
#include "proto/wire.h"

static int walk(const uint8_t *bytes, uint32_t length, int *count)
{
    uint32_t at = 0;
    struct field field;
    struct error err;
    int more;
    *count = 0;
    while ((more = fields_next(bytes, length, &at, &field, &err)) > 0) {
        assert_true(field.bytes + field.length <= bytes + length);
        ++*count;
    }
    return more;
}

static void fields_come_back_as_added(void **state)
{
    cleanup_buf struct buf buf = {0};
    cleanup_free char *text = NULL;
    uint32_t at = 0;
    uint64_t number = 0;
    struct field field;
    struct error err;
    (void)state;
    fields_add_text(&buf, 1, "one");
    fields_add_number(&buf, 2, UINT64_MAX - 1);
    fields_add_bytes(&buf, 3, NULL, 0);
    const uint8_t *payload = buf_data(&buf);
    uint32_t length = (uint32_t)buf_length(&buf);
    assert_int_equal(fields_next(payload, length, &at, &field, &err), 1);
    assert_int_equal(field.tag, 1);
    assert_int_equal(field_text(&field, &text, &err), 0);
    assert_string_equal(text, "one");
    assert_int_equal(fields_next(payload, length, &at, &field, &err), 1);
    assert_int_equal(field_number(&field, &number, &err), 0);
    assert_true(number == UINT64_MAX - 1);
    assert_int_equal(fields_next(payload, length, &at, &field, &err), 1);
    assert_int_equal(field.length, 0);
    assert_int_equal(fields_next(payload, length, &at, &field, &err), 0);
}

static void fields_cut_short_are_refused(void **state)
{
    cleanup_buf struct buf buf = {0};
    int count;
    (void)state;
    fields_add_text(&buf, 1, "first");
    uint32_t boundary = (uint32_t)buf_length(&buf);
    fields_add_number(&buf, 2, 7);
    for (uint32_t length = 0; length <= buf_length(&buf); length++) {
        bool whole = length == 0 || length == boundary || length == buf_length(&buf);
        cleanup_free uint8_t *copy = xmalloc(length ? length : 1);
        memcpy(copy, buf_data(&buf), length);
        int end = walk(copy, length, &count);
        assert_true(whole ? end == 0 : end < 0);
    }
}

static void lengths_that_lie_are_refused(void **state)
{
    static const uint32_t lies[] = {4, 0x7fffffff, 0x80000000, 0xfffffffa, 0xffffffff};
    uint8_t bytes[8] = {1};
    int count;
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        wire_put32(bytes + 1, lies[i]);
        assert_true(walk(bytes, sizeof bytes, &count) < 0);
    }
}

static void text_with_a_nul_is_refused(void **state)
{
    struct field field = {.tag = 1, .bytes = (const uint8_t *)"a\0b", .length = 3};
    char *text = NULL;
    struct error err;
    (void)state;
    assert_true(field_text(&field, &text, &err) < 0);
    assert_int_equal(err.code, ERROR_PROTOCOL);
    assert_null(text);
}

static void number_of_other_size_is_refused(void **state)
{
    uint8_t bytes[16] = {0};
    struct error err;
    uint64_t value;
    (void)state;
    for (uint32_t length = 0; length <= sizeof bytes; length++) {
        struct field field = {.tag = 1, .bytes = bytes, .length = length};
        assert_true(field_number(&field, &value, &err) == 0 ? length == 8 : length != 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back_as_added),
        cmocka_unit_test(fields_cut_short_are_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(text_with_a_nul_is_refused),
        cmocka_unit_test(number_of_other_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
