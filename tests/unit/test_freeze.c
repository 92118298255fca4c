/* A process with threads, changed memory and descriptors of all kinds is written down and killed;
 * two others become it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/embed.h"
#include "engine/vm/freeze.h"
#include "engine/vm/frozen.h"

EMBED(thaw, "thaw");

#define MEMORY_SIZE (64 * 4096)
#define ANSWER_MS 20000

/* ---- the process --------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t asked, answered;
    unsigned questions, answers;
    char *words; /* on the heap */
    uint8_t *memory;
    int event;
    double fraction;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .asked = PTHREAD_COND_INITIALIZER,
          .answered = PTHREAD_COND_INITIALIZER};

static __thread unsigned own_answers;

static void *answer(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&self.lock);
    for (;;) {
        while (self.answers == self.questions)
            pthread_cond_wait(&self.asked, &self.lock);
        own_answers++;
        self.answers++;
        pthread_cond_signal(&self.answered);
    }
    return NULL;
}

/* The C library asks the kernel without entering it, where it can: both must say the same. */
static bool clocks_agree(void)
{
    struct timespec library, kernel;
    clock_gettime(CLOCK_MONOTONIC, &library);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &kernel);
    return labs(kernel.tv_sec - library.tv_sec) <= 5;
}

static void serve(void)
{
    char byte;
    struct pollfd wait = {.fd = FROZEN_QMP, .events = POLLIN};
    while (poll(&wait, 1, -1) < 0 || read(FROZEN_QMP, &byte, 1) == 1) {
        if (!(wait.revents & POLLIN))
            continue;
        pthread_mutex_lock(&self.lock);
        self.questions++;
        pthread_cond_signal(&self.asked);
        while (self.answers != self.questions)
            pthread_cond_wait(&self.answered, &self.lock);
        pthread_mutex_unlock(&self.lock);
        uint64_t count = 0;
        ssize_t got = read(self.event, &count, sizeof count);
        self.memory[4096]++;
        dprintf(FROZEN_AGENT, "%u %s %u %u %.2f %zd:%u %s %d\n", self.answers, self.words,
                self.memory[0], self.memory[4096], self.fraction * self.answers, got,
                (unsigned)count, clocks_agree() ? "agree" : "differ", (int)gettid());
    }
}

static _Noreturn void be(const int *given)
{
    sigset_t signals;
    pthread_t threads[2];
    for (int i = 0; i < FROZEN_SELF - FROZEN_QMP; i++)
        dup2(given[i], 512 + i);
    for (int i = 0; i < FROZEN_SELF - FROZEN_QMP; i++)
        dup2(512 + i, FROZEN_QMP + i);
    close_range(FROZEN_SELF, ~0u, 0);
    self.memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, FROZEN_MEMORY, 0);
    self.memory[4096] = 100;
    self.words = strdup("heap");
    self.fraction = 0.25;
    self.event = eventfd(7, EFD_NONBLOCK);
    epoll_create1(0);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    signalfd(-1, &signals, SFD_NONBLOCK);
    open("/usr", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, answer, NULL);
    serve();
    _exit(0);
}

/* ---- around it ----------------------------------------------------------------------------- */

static int given[FROZEN_GIVEN_END - FROZEN_QMP];
static int talk[2], hear[2];

static int file_of(const char *text, size_t size)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) >= 0 && ftruncate(fd, (off_t)size) == 0);
    return fd;
}

static void give(enum frozen_given which, int fd)
{
    given[which - FROZEN_QMP] = fd;
}

static void renew_sockets(void)
{
    for (int i = 0; i < 2 && talk[0] > 0; i++) {
        close(talk[i]);
        close(hear[i]);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, hear), 0);
    give(FROZEN_QMP, talk[1]);
    give(FROZEN_AGENT, hear[1]);
}

/* The first one of a process namespace of its own. */
static pid_t start(void (*run)(void))
{
    int report[2];
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid_t between = fork();
    if (between == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(77);
        pid_t inner = fork();
        if (inner == 0) {
            run();
            _exit(1);
        }
        ssize_t ignored = write(report[1], &inner, sizeof inner);
        (void)ignored;
        _exit(0);
    }
    pid_t process = -1;
    close(report[1]);
    ssize_t got = read(report[0], &process, sizeof process);
    close(report[0]);
    waitpid(between, NULL, 0);
    return got == sizeof process ? process : -1;
}

static void run_original(void)
{
    be(given);
}

static void run_thaw(void)
{
    int program = memfd_create("thaw", MFD_CLOEXEC);
    if (write(program, thaw_begin, EMBED_SIZE(thaw)) != (ssize_t)EMBED_SIZE(thaw))
        _exit(1);
    int copy = fcntl(program, F_DUPFD_CLOEXEC, 900);
    for (int i = 0; i < FROZEN_GIVEN_END - FROZEN_QMP; i++)
        dup2(given[i], 512 + i);
    for (int i = 0; i < FROZEN_GIVEN_END - FROZEN_QMP; i++)
        dup2(512 + i, FROZEN_QMP + i);
    char *argv[] = {"thaw", NULL};
    fexecve(copy, argv, argv + 1);
}

static const char *ask(void)
{
    static char answer[256];
    struct pollfd wait = {.fd = hear[0], .events = POLLIN};
    assert_int_equal(write(talk[0], "?", 1), 1);
    assert_int_equal(poll(&wait, 1, ANSWER_MS), 1);
    ssize_t got = read(hear[0], answer, sizeof answer - 1);
    assert_true(got > 0);
    answer[got] = '\0';
    return answer;
}

static void become(const char *first, const char *second)
{
    int ready[2];
    char byte;
    renew_sockets();
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    give(FROZEN_READY, ready[1]);
    pid_t process = start(run_thaw);
    assert_true(process > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_string_equal(ask(), first);
    assert_string_equal(ask(), second);
    kill(process, SIGKILL);
}

static void test_processes_become_a_frozen_one(void **state)
{
    (void)state;
    struct error err;
    if (geteuid() != 0)
        skip();
#ifdef __SANITIZE_ADDRESS__
    skip(); /* what would be frozen is this program, whose memory is not laid out like others' */
#endif
    int console[2];
    assert_int_equal(pipe2(console, O_CLOEXEC), 0);
    give(FROZEN_CONSOLE, console[1]);
    give(FROZEN_IMAGE, file_of("image", 4096));
    give(FROZEN_DISK, file_of("disk", 4096));
    give(FROZEN_OVERLAY, file_of("overlay", 4096));
    give(FROZEN_KEPT, file_of("kept", 4096));
    give(FROZEN_MEMORY, file_of("*", MEMORY_SIZE));
    give(FROZEN_SELF, file_of("", 0));
    renew_sockets();
    pid_t process = start(run_original);
    assert_true(process > 0);
    assert_string_equal(ask(), "1 heap 42 101 0.25 8:7 agree 1\n");
    assert_string_equal(ask(), "2 heap 42 102 0.50 -1:0 agree 1\n");

    const int *at = given - FROZEN_QMP;
    const struct freeze_files files = {.image = at[FROZEN_IMAGE],
                                       .disk = at[FROZEN_DISK],
                                       .overlay = at[FROZEN_OVERLAY],
                                       .kept = at[FROZEN_KEPT],
                                       .memory = at[FROZEN_MEMORY],
                                       .console = console[0]};
    if (freeze(process, &files, at[FROZEN_SELF], &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(frozen_look(at[FROZEN_SELF]), FROZEN_USABLE);
    /* It goes on, and what was written down does not. */
    assert_string_equal(ask(), "3 heap 42 103 0.75 -1:0 agree 1\n");
    kill(process, SIGKILL);
    become("3 heap 42 103 0.75 -1:0 agree 1\n", "4 heap 42 104 1.00 -1:0 agree 1\n");
    become("3 heap 42 103 0.75 -1:0 agree 1\n", "4 heap 42 104 1.00 -1:0 agree 1\n");
}

static void test_what_cannot_be_thawed_is_known(void **state)
{
    (void)state;
    struct error err;
    int none = file_of("nothing of the kind", 4096);
    assert_int_equal(frozen_look(none), FROZEN_OUTDATED);
    assert_int_equal(frozen_refuse(none, &err), 0);
    assert_int_equal(frozen_look(none), FROZEN_REFUSED);
    close(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_become_a_frozen_one),
        cmocka_unit_test(test_what_cannot_be_thawed_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
