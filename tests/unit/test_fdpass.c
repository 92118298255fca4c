#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdpass.h"

static int sockets[2];

static int open_sockets(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets);
}

static int close_sockets(void **state)
{
    (void)state;
    close(sockets[0]);
    close(sockets[1]);
    return 0;
}

static bool is_same(int first, int second)
{
    struct stat one, other;
    return fstat(first, &one) == 0 && fstat(second, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
}

static void one_descriptor_arrives(void **state)
{
    (void)state;
    int pipes[2], fd;
    char text[8];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(fdpass_send(sockets[0], "abc", 3, pipes[0]), 0);
    assert_int_equal(fdpass_receive(sockets[1], text, sizeof text, &fd), 3);
    assert_memory_equal(text, "abc", 3);
    assert_true(fd != pipes[0] && is_same(fd, pipes[0]));
    close(fd);
    close(pipes[0]);
    close(pipes[1]);
}

static void none_is_none(void **state)
{
    (void)state;
    int fd = 0;
    char byte;
    assert_int_equal(fdpass_send(sockets[0], "x", 1, -1), 0);
    assert_int_equal(fdpass_receive(sockets[1], &byte, 1, &fd), 1);
    assert_int_equal(fd, -1);
}

static void several_arrive_in_their_order(void **state)
{
    (void)state;
    int pipes[2], got[FDPASS_MAX];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    int sent[FDPASS_MAX];
    for (int i = 0; i < FDPASS_MAX; i++)
        sent[i] = i % 2 ? pipes[0] : sockets[0];
    assert_int_equal(fdpass_send_all(sockets[0], "x", 1, sent, FDPASS_MAX), 0);

    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof got)];
    } control;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    assert_int_equal(recvmsg(sockets[1], &message, 0), 1);
    assert_int_equal(control.header.cmsg_len, CMSG_LEN(sizeof got));
    memcpy(got, CMSG_DATA(&control.header), sizeof got);
    for (int i = 0; i < FDPASS_MAX; i++) {
        assert_true(is_same(got[i], sent[i]));
        close(got[i]);
    }
    close(pipes[0]);
    close(pipes[1]);
}

static void a_closed_end_is_an_error(void **state)
{
    (void)state;
    shutdown(sockets[1], SHUT_RDWR);
    assert_int_equal(fdpass_send(sockets[0], "x", 1, -1), -1);
}

static void the_sender_is_who_wrote(void **state)
{
    (void)state;
    int ends[2];
    struct ucred sender;
    assert_int_equal(fdpass_pair(ends), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    assert_true(child > 0 && waitpid(child, NULL, 0) == child);
    assert_true(fdpass_read_sender(ends[0], &sender));
    assert_int_equal(sender.pid, child);
    assert_int_equal(sender.uid, getuid());
    close(ends[0]);
    close(ends[1]);
}

static void nobody_wrote(void **state)
{
    (void)state;
    int ends[2];
    struct ucred sender;
    assert_int_equal(fdpass_pair(ends), 0);
    assert_false(fdpass_read_sender(ends[0], &sender));
    close(ends[1]);
    assert_false(fdpass_read_sender(ends[0], &sender));
    close(ends[0]);
}

static void senders_are_for_pairs_only(void **state)
{
    (void)state;
    struct ucred sender;
    assert_int_equal(fdpass_send(sockets[0], "x", 1, -1), 0);
    assert_false(fdpass_read_sender(sockets[1], &sender));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_descriptor_arrives, open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(none_is_none, open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(several_arrive_in_their_order, open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(a_closed_end_is_an_error, open_sockets, close_sockets),
        cmocka_unit_test(the_sender_is_who_wrote),
        cmocka_unit_test(nobody_wrote),
        cmocka_unit_test_setup_teardown(senders_are_for_pairs_only, open_sockets, close_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
