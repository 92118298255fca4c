/*
 * The wall around QEMU as somebody meets it who has taken QEMU over: this program is started in its
 * place and tries what it should not be able to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/cgroup.h"
#include "engine/landlock.h"
#include "engine/vm/confine.h"
#include "temporary_home.h"

/* ---- in the place of QEMU ------------------------------------------------------------------ */

static void tell(const char *what, bool worked)
{
    dprintf(2, "%s %s\n", what, worked ? "worked" : "failed");
}

static bool opens(int folder, const char *path, int flags)
{
    return openat(folder, path, flags | O_CLOEXEC, 0600) >= 0;
}

/* argv: the program, ",path=/volumes," as QEMU has it, a secret file, a file to be made */
static int attempts(char **argv)
{
    const char *secret = argv[2], *made = argv[3];
    int libraries = open("/usr/lib", O_RDONLY | O_DIRECTORY);
    struct rlimit limit;
    tell("libraries", libraries >= 0);
    tell("secret", opens(AT_FDCWD, secret, O_RDONLY));
    tell("secret beside a folder", opens(libraries, secret, O_RDONLY));
    tell("write", opens(AT_FDCWD, made, O_WRONLY | O_CREAT));
    tell("write beside a folder", opens(libraries, made, O_WRONLY | O_CREAT));
    tell("change", opens(libraries, secret, O_RDWR));
    tell("remove", unlink(secret) == 0 || unlinkat(AT_FDCWD, secret, 0) == 0);
    tell("mode", chmod(secret, 0777) == 0 && access(secret, X_OK) == 0);
    cleanup_free char *memory = xasprintf("/proc/%d/mem", getppid());
    cleanup_free char *environment = xasprintf("/proc/%d/environ", getppid());
    tell("memory of the keeper", opens(libraries, memory, O_RDWR));
    tell("environment of the keeper", opens(AT_FDCWD, environment, O_RDONLY));
    tell("socket", socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    tell("signal", syscall(SYS_tgkill, getppid(), getppid(), SIGTERM) == 0 && getppid() > 0);
    tell("kill", kill(getppid(), SIGTERM) == 0);
    tell("limits", getppid() > 0 && prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) == 0);
    tell("owner", getppid() > 0 && fcntl(CONFINE_FIRST_FD, F_SETOWN, getppid()) == 0);
    tell("process", syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) >= 0);
    tell("program", execl("/bin/true", "true", NULL) == 0);
    tell("self", tgkill(getpid(), gettid(), 0) == 0);
    return 0;
}

/* ---- around it --------------------------------------------------------------------------- */

static void give_up_administration(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_ADMIN);
    data[0].permitted &= ~(1u << CAP_SYS_ADMIN);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* As the filters of containers do. */
static void refuse_namespaces(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    assert_non_null(filter);
    const uint64_t user = 0x10000000;
    assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), 0);
    assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                      SCMP_A0(SCMP_CMP_MASKED_EQ, user, user)),
                     0);
    assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 0), 0);
    assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mount), 0), 0);
    assert_int_equal(seccomp_load(filter), 0);
    seccomp_release(filter);
    give_up_administration();
}

/* What it says, up to its end. */
static char *run_attempts(const struct machine_volume *volumes, size_t count, bool *is_thin,
                          const char *secret, const char *made)
{
    struct error err = {0};
    char self[4096] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *argv[] = {self, ",path=" CONFINE_VOLUMES ",", (char *)(uintptr_t)secret,
                    (char *)(uintptr_t)made, NULL};
    const char *const no_files[] = {NULL};
    const struct cgroup no_group = {0};
    cleanup_free char *folder = xasprintf("%s/mounts", getenv("MSB_HOME"));
    assert_int_equal(folder_make(folder, 0700, &err), 0);
    int words[2], given[2];
    assert_int_equal(pipe2(words, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, given), 0);
    const struct confinement confinement = {.argv = argv,
                                            .fds = &given[1],
                                            .fd_count = 1,
                                            .files = no_files,
                                            .volumes = volumes,
                                            .volume_count = count,
                                            .folder = folder,
                                            .cgroup = &no_group,
                                            .stderr_fd = words[1],
                                            .is_thin = is_thin};
    pid_t process;
    int pidfd;
    if (confine_start(&confinement, &process, &pidfd, &err) < 0)
        fail_msg("%s", err.message);
    close(words[1]);
    struct buf said = {0};
    char piece[512];
    for (ssize_t got; (got = read(words[0], piece, sizeof piece)) > 0;)
        buf_append(&said, piece, (size_t)got);
    waitpid(process, NULL, 0);
    close(words[0]);
    close(given[0]);
    close(given[1]);
    close(pidfd);
    char *text = xstrdup(buf_text(&said));
    buf_free(&said);
    return text;
}

static const char *const refused[] = {"secret",
                                      "secret beside a folder",
                                      "write",
                                      "write beside a folder",
                                      "change",
                                      "remove",
                                      "mode",
                                      "memory of the keeper",
                                      "environment of the keeper",
                                      "socket",
                                      "signal",
                                      "kill",
                                      "limits",
                                      "owner",
                                      "process",
                                      "program"};

static void assert_walled_in(const char *said)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        cleanup_free char *line = xasprintf("%s failed\n", refused[i]);
        if (!strstr(said, line))
            fail_msg("not refused: %s\n%s", refused[i], said);
    }
    assert_non_null(strstr(said, "libraries worked\n"));
    assert_non_null(strstr(said, "self worked\n"));
}

static char *make_secret(char **made)
{
    char *secret = xasprintf("%s/secret", getenv("MSB_HOME"));
    cleanup_fd int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    *made = xasprintf("%s/made", getenv("MSB_HOME"));
    return secret;
}

static void try_wall(bool expect_thin)
{
    bool is_thin = false;
    cleanup_free char *made = NULL;
    cleanup_free char *secret = make_secret(&made);
    cleanup_free char *said = run_attempts(NULL, 0, &is_thin, secret, made);
    assert_int_equal(is_thin, expect_thin);
    assert_walled_in(said);
    assert_true(file_exists(secret));
    assert_false(file_exists(made));
}

/* A filter cannot be taken off again: in a process of its own, where a failure is an exit code. */
static void in_a_container(void (*test)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        refuse_namespaces();
        test();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void thin(void)
{
    try_wall(true);
}

/* A program with that library reads /proc before it runs, and wants to be loaded before ours. */
#ifdef __SANITIZE_ADDRESS__
#define CAN_BE_QEMU false
#else
#define CAN_BE_QEMU true
#endif

static void thin_wall_leaves_nothing_but_libraries(void **state)
{
    (void)state;
    if (!CAN_BE_QEMU || !landlock_available())
        skip();
    in_a_container(thin);
}

static void namespaces_leave_nothing_but_libraries(void **state)
{
    struct error why;
    (void)state;
    if (!CAN_BE_QEMU || confine_look("/proc/self/exe", &why) != CONFINE_FULL)
        skip();
    try_wall(false);
}

static void demand_namespaces(void)
{
    struct error why;
    setenv("MSB_WALL", "namespaces", 1);
    assert_int_equal(confine_look("/bin/true", &why), CONFINE_NONE);
    unsetenv("MSB_WALL");
    assert_int_equal(confine_look("/bin/true", &why), CONFINE_THIN);
}

static void thin_wall_can_be_ruled_out(void **state)
{
    (void)state;
    if (!landlock_available())
        skip();
    in_a_container(demand_namespaces);
}

static void share_two(void)
{
    struct error err = {0};
    const struct machine_volume volumes[] = {{"/usr", "/a", true}, {"/etc", "/b", true}};
    char *argv[] = {"/bin/true", NULL};
    const char *const no_files[] = {NULL};
    const struct cgroup no_group = {0};
    const struct confinement confinement = {.argv = argv,
                                            .files = no_files,
                                            .volumes = volumes,
                                            .volume_count = 2,
                                            .folder = "/usr",
                                            .cgroup = &no_group,
                                            .stderr_fd = 2};
    pid_t process;
    int pidfd;
    assert_int_equal(confine_start(&confinement, &process, &pidfd, &err), -1);
    assert_non_null(strstr(err.message, "only one folder"));
}

static void thin_wall_shares_one_folder_at_most(void **state)
{
    (void)state;
    if (!landlock_available())
        skip();
    in_a_container(share_two);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return attempts(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_leave_nothing_but_libraries),
        cmocka_unit_test(thin_wall_leaves_nothing_but_libraries),
        cmocka_unit_test(thin_wall_can_be_ruled_out),
        cmocka_unit_test(thin_wall_shares_one_folder_at_most),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
