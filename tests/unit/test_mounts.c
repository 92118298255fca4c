#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/mounts.h"

#define NOBODY 65534

static void a_file_system_of_the_kernel_is_found(void **state)
{
    (void)state;
    assert_int_equal(mount_try_type("tmpfs"), 0);
}

static void one_that_does_not_exist_is_told_apart(void **state)
{
    (void)state;
    assert_int_equal(mount_try_type("no_such_system"), ENODEV);
}

/* What mount_try_type returns to a user without rights. */
static int try_as_nobody(const char *type)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
            _exit(255);
        _exit(mount_try_type(type));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void an_ordinary_user_is_told_the_same(void **state)
{
    (void)state;
    assert_int_equal(try_as_nobody("tmpfs"), 0);
    assert_int_equal(try_as_nobody("no_such_system"), ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_system_of_the_kernel_is_found),
        cmocka_unit_test(one_that_does_not_exist_is_told_apart),
        cmocka_unit_test(an_ordinary_user_is_told_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
