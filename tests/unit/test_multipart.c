/* Bodies with several parts, whole and in every way of being cut into two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "server/http/multipart.h"

#define TYPE "multipart/form-data; boundary=xyz"

/* What was found, as text: "[name:contents]" for each part, "." at the end, "!" for an error. */
/* True when that is all. */
static bool take(struct multipart *multipart, struct buf *in, struct buf *found)
{
    struct error err;
    size_t used;
    for (;;) {
        int event = multipart_next(multipart, buf_data(in), buf_length(in), &used, &err);
        if (event == MULTIPART_PART)
            buf_printf(found, "[%s:", multipart->filename);
        else if (event == MULTIPART_BYTES)
            buf_append(found, buf_data(in), used);
        else if (event == MULTIPART_PART_END)
            buf_append_text(found, "]");
        else if (event != MULTIPART_AGAIN) {
            if (event != MULTIPART_MORE)
                buf_append_text(found, event == MULTIPART_END ? "." : "!");
            return event != MULTIPART_MORE;
        }
        buf_consume(in, used);
    }
}

static void assert_found(const char *body, const char *expected)
{
    size_t length = strlen(body);
    for (size_t cut = 0; cut <= length; cut++) {
        cleanup_buf struct buf in = {0}, found = {0};
        struct multipart multipart;
        assert_true(multipart_init(&multipart, TYPE));
        buf_append(&in, body, cut);
        if (!take(&multipart, &in, &found)) {
            buf_append(&in, body + cut, length - cut);
            take(&multipart, &in, &found);
        }
        assert_string_equal(buf_text(&found), expected);
    }
}

#define PART(name) "Content-Disposition: form-data; name=\"f\"; filename=\"" name "\"\r\n\r\n"

static void parts_are_found(void **state)
{
    (void)state;
    assert_found("--xyz\r\n" PART("a.txt") "hello\r\n--xyz--\r\n", "[a.txt:hello].");
    assert_found("--xyz\r\n" PART("a") "1\r\n--xyz\r\n" PART("b") "\r\n--xyz--", "[a:1][b:].");
    assert_found("--xyz\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nv\r\n--xyz--",
                 "[:v].");
    assert_found("--xyz\r\n\r\nplain\r\n--xyz--", "[:plain].");
    assert_found("--xyz--", ".");
}

static void what_looks_like_a_boundary_is_contents(void **state)
{
    (void)state;
    assert_found("--xyz\r\n" PART("a") "\r\n--xy\r\n-xyz--xyz\r\n--xyz--",
                 "[a:\r\n--xy\r\n-xyz--xyz].");
}

static void names_in_quotes(void **state)
{
    (void)state;
    assert_found("--xyz\r\n" PART("a\\\"b;c.txt") "1\r\n--xyz--", "[a\"b;c.txt:1].");
    assert_found("--xyz\r\ncontent-disposition: form-data; filename=plain.txt\r\n\r\n1\r\n--xyz--",
                 "[plain.txt:1].");
    assert_found("--xyz\r\nContent-Disposition: form-data; filename=\"open\r\n\r\n1\r\n--xyz--",
                 "[:1].");
}

static void what_is_broken(void **state)
{
    (void)state;
    assert_found("hello", "!");
    assert_found("--xyz hello", "!");
    assert_found("\r\n--xyz\r\n", "!");
    assert_found("--xyz\r\n" PART("a") "half", "[a:");
}

static void types_that_are_none(void **state)
{
    (void)state;
    struct multipart multipart;
    static const char *const wrong[] = {
        NULL,
        "",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"x",
        "multipart/form-data; boundary="
        "1234567890123456789012345678901234567890123456789012345678901234567890x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(multipart_init(&multipart, wrong[i]));
    assert_true(multipart_init(&multipart, "Multipart/Form-Data; charset=x; Boundary=\"a b\""));
    assert_string_equal(multipart.delimiter, "\r\n--a b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(what_looks_like_a_boundary_is_contents),
        cmocka_unit_test(names_in_quotes),
        cmocka_unit_test(what_is_broken),
        cmocka_unit_test(types_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
