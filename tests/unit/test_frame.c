/* Frames, also from somebody who lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/frame.h"
#include "proto/wire.h"

static void frames_come_back_as_sent(void **state)
{
    cleanup_buf struct buf buf = {0};
    struct frame frame;
    struct error err;
    (void)state;
    frame_append(&buf, 7, FRAME_DATA, 2, "hello", 5);
    frame_append(&buf, 0xfffffffe, FRAME_EOF, 255, NULL, 0);
    int size = frame_decode(&buf, &frame, &err);
    assert_int_equal(size, FRAME_HEADER + 5);
    assert_int_equal(frame.stream, 7);
    assert_int_equal(frame.type, FRAME_DATA);
    assert_int_equal(frame.detail, 2);
    assert_int_equal(frame.length, 5);
    assert_memory_equal(frame.payload, "hello", 5);
    buf_consume(&buf, (size_t)size);
    assert_int_equal(frame_decode(&buf, &frame, &err), FRAME_HEADER);
    assert_int_equal(frame.stream, 0xfffffffe);
    assert_int_equal(frame.type, FRAME_EOF);
    assert_int_equal(frame.length, 0);
}

/* From memory that ends where the bytes end, so that a sanitizer sees any read beyond. */
static int decode_exactly(const uint8_t *bytes, size_t length, struct frame *frame,
                          struct error *err)
{
    cleanup_free uint8_t *copy = xmalloc(length ? length : 1);
    if (length)
        memcpy(copy, bytes, length);
    struct buf buf = {.bytes = copy, .end = length, .capacity = length};
    return frame_decode(&buf, frame, err);
}

static void part_of_a_frame_waits_for_more(void **state)
{
    cleanup_buf struct buf buf = {0};
    struct frame frame;
    struct error err;
    (void)state;
    frame_append(&buf, 1, FRAME_OPEN, 1, "arguments", 9);
    for (size_t length = 0; length < buf_length(&buf); length++)
        assert_int_equal(decode_exactly(buf_data(&buf), length, &frame, &err), 0);
    assert_true(decode_exactly(buf_data(&buf), buf_length(&buf), &frame, &err) > 0);
}

static void assert_no_frame(uint32_t length, uint8_t type, uint8_t reserved)
{
    uint8_t bytes[FRAME_HEADER] = {0};
    struct frame frame;
    struct error err;
    wire_put32(bytes, length);
    bytes[8] = type;
    bytes[11] = reserved;
    assert_true(decode_exactly(bytes, sizeof bytes, &frame, &err) < 0);
    assert_int_equal(err.code, ERROR_PROTOCOL);
}

static void lies_are_refused_at_the_header(void **state)
{
    (void)state;
    assert_no_frame(FRAME_MAX + 1, FRAME_DATA, 0);
    assert_no_frame(0x7fffffff, FRAME_DATA, 0);
    assert_no_frame(0xffffffff, FRAME_DATA, 0);
    assert_no_frame(0xffffffff - FRAME_HEADER + 1, FRAME_DATA, 0);
    assert_no_frame(0, 0, 0);
    assert_no_frame(0, FRAME_TYPE_COUNT, 0);
    assert_no_frame(0, 255, 0);
    assert_no_frame(0, FRAME_DATA, 1);
}

static void largest_frame_is_allowed(void **state)
{
    cleanup_buf struct buf buf = {0};
    cleanup_free uint8_t *payload = xcalloc(1, FRAME_MAX);
    struct frame frame;
    struct error err;
    (void)state;
    frame_append(&buf, 1, FRAME_DATA, 1, payload, FRAME_MAX);
    assert_int_equal(frame_decode(&buf, &frame, &err), FRAME_HEADER + FRAME_MAX);
}

static void credit_is_four_bytes(void **state)
{
    cleanup_buf struct buf buf = {0};
    struct frame frame;
    struct error err;
    uint32_t amount = 0;
    (void)state;
    frame_append_credit(&buf, 3, 0xdeadbeef);
    assert_true(frame_decode(&buf, &frame, &err) > 0);
    assert_int_equal(frame.type, FRAME_CREDIT);
    assert_int_equal(frame_credit(&frame, &amount, &err), 0);
    assert_int_equal(amount, 0xdeadbeef);
    for (uint32_t length = 0; length < 8; length++) {
        frame.length = length;
        if (length != 4)
            assert_true(frame_credit(&frame, &amount, &err) < 0);
    }
}

static void random_bytes_never_read_beyond(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[64];
        struct frame frame;
        struct error err;
        size_t length = (size_t)(rand() % (int)sizeof bytes);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(rand() % 4 ? rand() % 16 : 0);
        int size = decode_exactly(bytes, length, &frame, &err);
        assert_true(size <= (int)length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_as_sent),
        cmocka_unit_test(part_of_a_frame_waits_for_more),
        cmocka_unit_test(lies_are_refused_at_the_header),
        cmocka_unit_test(largest_frame_is_allowed),
        cmocka_unit_test(credit_is_four_bytes),
        cmocka_unit_test(random_bytes_never_read_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
