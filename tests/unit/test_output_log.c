/* The log of a sandbox's output. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/output_log.h"

static char folder[] = "/tmp/msb-test-log-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    struct error err;
    (void)state;
    return folder_remove(folder, &err);
}

static off_t size_of(const char *name)
{
    struct stat status;
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    return stat(path, &status) < 0 ? -1 : status.st_size;
}

static void output_is_kept_in_order(void **state)
{
    struct output_log log;
    struct error err;
    cleanup_buf struct buf contents = {0};
    cleanup_free char *path = xasprintf("%s/output.log", folder);
    (void)state;
    assert_int_equal(output_log_open(&log, folder, &err), 0);
    output_log_write(&log, "one ", 4);
    output_log_write(&log, "two", 3);
    output_log_close(&log);
    assert_int_equal(file_read(path, 100, &contents, &err), 0);
    assert_string_equal(buf_text(&contents), "one two");
}

static void two_bounded_parts_are_kept(void **state)
{
    enum { PIECE = 1 << 20 };
    struct output_log log;
    struct error err;
    cleanup_free char *piece = xcalloc(1, PIECE);
    (void)state;
    assert_int_equal(output_log_open(&log, folder, &err), 0);
    for (unsigned i = 0; i < 3 * OUTPUT_LOG_PART / PIECE + 1; i++) {
        output_log_write(&log, piece, PIECE);
        assert_in_range(size_of("output.log"), PIECE, OUTPUT_LOG_PART);
    }
    output_log_write(&log, "end", 3);
    output_log_close(&log);
    assert_int_equal(size_of("output.log"), PIECE + 3);
    assert_int_equal(size_of("output.log.1"), OUTPUT_LOG_PART);
    assert_int_equal(size_of("output.log.2"), -1);
}

static void nobody_else_reads_it(void **state)
{
    struct output_log log;
    struct error err;
    struct stat status;
    cleanup_free char *path = xasprintf("%s/output.log", folder);
    (void)state;
    assert_int_equal(output_log_open(&log, folder, &err), 0);
    assert_int_equal(fcntl(log.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    output_log_close(&log);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void missing_folder_is_an_error(void **state)
{
    struct output_log log;
    struct error err;
    (void)state;
    assert_true(output_log_open(&log, "/nonexistent", &err) < 0);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    output_log_write(&log, "lost", 4);
    output_log_close(&log);
}

#define test(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(output_is_kept_in_order),
        test(two_bounded_parts_are_kept),
        test(nobody_else_reads_it),
        test(missing_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
