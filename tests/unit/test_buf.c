/* Growable runs of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void appended_bytes_come_out_in_order(void **state)
{
    cleanup_buf struct buf buf = {0};
    (void)state;
    buf_append(&buf, "ab", 2);
    buf_append_text(&buf, "cd");
    buf_printf(&buf, "%d", 42);
    buf_append(&buf, NULL, 0);
    assert_string_equal(buf_text(&buf), "abcd42");
    assert_int_equal(buf_length(&buf), 6);
}

static void consumed_bytes_are_gone(void **state)
{
    cleanup_buf struct buf buf = {0};
    (void)state;
    buf_append_text(&buf, "hello world");
    buf_consume(&buf, 6);
    assert_string_equal(buf_text(&buf), "world");
    buf_consume(&buf, 5);
    assert_int_equal(buf_length(&buf), 0);
    assert_string_equal(buf_text(&buf), "");
}

/* A queue that is filled and emptied for ever does not grow for ever. */
static void passing_through_needs_bounded_room(void **state)
{
    cleanup_buf struct buf buf = {0};
    uint8_t next_in = 0, next_out = 0;
    (void)state;
    for (int round = 0; round < 100000; round++) {
        for (int i = 0; i < 7; i++)
            buf_append(&buf, &next_in, 1), next_in++;
        size_t size = round % 2 ? buf_length(&buf) - 3 : 2;
        for (size_t i = 0; i < size; i++)
            assert_int_equal(buf_data(&buf)[i], next_out++);
        buf_consume(&buf, size);
    }
    assert_in_range(buf.capacity, 1, 4096);
}

static void reserved_room_is_counted_when_committed(void **state)
{
    cleanup_buf struct buf buf = {0};
    (void)state;
    memset(buf_reserve(&buf, 1000), 'x', 1000);
    assert_int_equal(buf_length(&buf), 0);
    buf_commit(&buf, 10);
    assert_string_equal(buf_text(&buf), "xxxxxxxxxx");
}

static void large_contents_survive_growing(void **state)
{
    cleanup_buf struct buf buf = {0};
    (void)state;
    for (uint32_t i = 0; i < 300000; i++)
        buf_append(&buf, &i, sizeof i);
    for (uint32_t i = 0; i < 300000; i++)
        assert_memory_equal(buf_data(&buf) + i * sizeof i, &i, sizeof i);
}

static void freeing_leaves_an_empty_one(void **state)
{
    struct buf buf = {0};
    (void)state;
    buf_append_text(&buf, "x");
    buf_free(&buf);
    assert_int_equal(buf_length(&buf), 0);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_bytes_come_out_in_order),
        cmocka_unit_test(consumed_bytes_are_gone),
        cmocka_unit_test(passing_through_needs_bounded_room),
        cmocka_unit_test(reserved_room_is_counted_when_committed),
        cmocka_unit_test(large_contents_survive_growing),
        cmocka_unit_test(freeing_leaves_an_empty_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
