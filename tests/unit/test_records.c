#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/wire.h"
#include "sandbox/records.h"

static void add(struct buf *out, const char *json)
{
    uint8_t length[4];
    wire_put32(length, (uint32_t)strlen(json));
    buf_append(out, length, sizeof length);
    buf_append_text(out, json);
}

static int next_number(struct records *records)
{
    json_t *record = records_next(records);
    int number = record ? (int)json_integer_value(json_object_get(record, "n")) : -1;
    json_decref(record);
    return number;
}

static void records_come_in_any_pieces(void **state)
{
    (void)state;
    cleanup_buf struct buf bytes = {0};
    add(&bytes, "{\"n\": 1}");
    add(&bytes, "{\"n\": 2}");
    for (size_t size = 1; size <= buf_length(&bytes); size++) {
        struct records records = {0};
        int sum = 0;
        for (size_t at = 0; at < buf_length(&bytes); at += size) {
            size_t left = buf_length(&bytes) - at;
            records_feed(&records, buf_data(&bytes) + at, left < size ? left : size);
            for (int number; (number = next_number(&records)) > 0;)
                sum = sum * 10 + number;
        }
        assert_int_equal(sum, 12);
        records_free(&records);
    }
}

static void what_is_no_json_is_skipped(void **state)
{
    (void)state;
    struct records records = {0};
    cleanup_buf struct buf bytes = {0};
    add(&bytes, "{\"n\": ");
    add(&bytes, "");
    add(&bytes, "{\"n\": 3}");
    records_feed(&records, buf_data(&bytes), buf_length(&bytes));
    assert_int_equal(next_number(&records), 3);
    assert_int_equal(next_number(&records), -1);
    assert_false(records.broken);
    records_free(&records);
}

static void a_length_beyond_the_limit_ends_it(void **state)
{
    (void)state;
    struct records records = {0};
    cleanup_buf struct buf bytes = {0};
    records_feed(&records, (const uint8_t *)"\xff\xff\xff\xff", 4);
    assert_int_equal(next_number(&records), -1);
    assert_true(records.broken);
    add(&bytes, "{\"n\": 4}");
    records_feed(&records, buf_data(&bytes), buf_length(&bytes));
    assert_int_equal(next_number(&records), -1);
    records_free(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_any_pieces),
        cmocka_unit_test(what_is_no_json_is_skipped),
        cmocka_unit_test(a_length_beyond_the_limit_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
