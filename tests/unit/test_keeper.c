/* A keeper whose owner asks for nothing, or for nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "sandbox/keeper.h"

#define PATIENCE_S 20

/* How a keeper ends whose owner says this and leaves. */
static int end_after(const void *said, size_t length)
{
    int sockets[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t keeper = fork();
    if (keeper == 0) {
        close(sockets[0]);
        alarm(PATIENCE_S);
        _exit(keeper_main(sockets[1]));
    }
    close(sockets[1]);
    assert_int_equal(file_write_all(sockets[0], said, length), 0);
    close(sockets[0]);
    assert_int_equal(waitpid(keeper, &status, 0), keeper);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void ends_with_its_owner(void **state)
{
    (void)state;
    assert_int_equal(end_after("", 0), 1);
    assert_int_equal(end_after("\1", 1), 1);
}

static void refuses_nonsense(void **state)
{
    (void)state;
    char nonsense[64];
    memset(nonsense, 0xff, sizeof nonsense);
    assert_int_equal(end_after(nonsense, sizeof nonsense), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_its_owner),
        cmocka_unit_test(refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
