/*
 * The agent: PID 1 of every sandbox. It serves one connection from the keeper.
 *
 *   msb-agent          boots the machine it is the first process of, and serves its port
 *   msb-agent … --trial
 *                      the same, and puts the kernel to the test before
 *   msb-agent --fd N   serves the inherited descriptor N in the world it finds
 *   msb-agent --jail N GROUP MEMORY PROCESSES
 *                      the same as the first process of a jail; the others are inherited folders
 *                      of its control groups, -1 where it has none: that in which it may make its
 *                      own, and those that limit memory and processes
 *   msb-agent --jail N GROUP MEMORY PROCESSES LINK USER
 *                      the same with an interpreter of that user on its way: LINK and the four
 *                      descriptors behind it are those of zygote_expect, the environment is its own
 *   msb-agent --zygote N USER
 *                      becomes the zygote for jails, connected by the inherited descriptor N
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/adopt.h"
#include "agent/boot.h"
#include "agent/connection.h"
#include "agent/context_manage.h"
#include "agent/exec.h"
#include "agent/file.h"
#include "agent/group.h"
#include "agent/hold.h"
#include "agent/language.h"
#include "agent/limits.h"
#include "agent/loop.h"
#include "agent/machine.h"
#include "agent/metrics.h"
#include "agent/oom.h"
#include "agent/process_operations.h"
#include "agent/run.h"
#include "agent/scope.h"
#include "agent/spawn.h"
#include "agent/trial.h"
#include "agent/tunnel.h"
#include "agent/zygote.h"
#include "agent/zygote_start.h"
#include "base/log.h"
#include "base/mem.h"

static int exit_code;

static _Noreturn void leave(void)
{
    if (machine_is_ours())
        machine_power_off();
    scope_shutdown();
    exit(exit_code);
}

static void shutdown_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    (void)fields, (void)length;
    struct outcome done = {0};
    if (machine_is_ours())
        boot_seal_kept_disk();
    else
        scope_shutdown();
    stream_end(stream, &done);
    connection_flush_blocking();
    leave();
}

static void on_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    static void (*const operations[])(struct stream *, const uint8_t *, uint32_t) = {
        [OP_EXEC] = exec_open,
        [OP_RUN] = run_open,
        [OP_ADOPT] = adopt_open,
        [OP_QUIESCE] = quiesce_open,
        [OP_SHUTDOWN] = shutdown_open,
        [OP_FILE_READ... OP_FILE_CHANGES] = file_open,
        [OP_CONTEXT_MAKE... OP_CONTEXT_REMOVE] = context_manage_open,
        [OP_PROCESS_LIST] = process_list_open,
        [OP_PROCESS_ATTACH] = process_attach_open,
        [OP_PROCESS_SIGNAL] = process_signal_open,
        [OP_PROCESS_INPUT] = process_input_open,
        [OP_CONNECT] = connect_open,
        [OP_ACCEPT] = accept_open,
        [OP_METRICS] = metrics_open,
        [OP_HOLD] = hold_open,
        [OP_CLOCK] = clock_open,
    };
    struct error err;
    if (adopt_check(stream->operation, &err) < 0 ||
        limits_output(stream->operation, fields, length, &stream->output_limit, &err) < 0) {
        stream_end_error(stream, &err);
        return;
    }
    if (stream->operation < sizeof operations / sizeof operations[0] &&
        operations[stream->operation]) {
        operations[stream->operation](stream, fields, length);
        return;
    }
    error_set(&err, ERROR_INVALID, "the agent has no operation %u", stream->operation);
    error_hint(&err, "the sandbox was made by an older version: stop it and start it again");
    stream_end_error(stream, &err);
}

static void on_closed(const struct error *err)
{
    if (err->code) {
        log_error("the connection is unusable: %s", err->message);
        exit_code = 1;
    }
    loop_stop();
}

/*
 * musl gives memory back to the kernel as soon as the last block of its kind is freed, and fetches
 * it again for the next one: two system calls that a machine which was just copied has to pay
 * dearly for. One block of each kind that is never freed keeps the rest at hand.
 */
static void keep_heap(void)
{
    enum { BLOCKS = 16, LARGEST = 8192 };
    void *blocks[BLOCKS];
    for (size_t size = 16; size <= LARGEST; size += size < 128 ? 16 : size / 8) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = xmalloc(size);
        for (int i = 0; i < BLOCKS - 1; i++)
            free(blocks[i]);
    }
}

static void settle(int group)
{
    struct error err;
    log_set_speaker("agent");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (machine_is_ours())
        keep_heap();
    loop_open();
    spawn_init();
    scope_init(group);
    oom_open();
    metrics_begin();
    if (language_install(&err) < 0)
        log_warn("no interpreters: %s", err.message);
}

static int serve(int fd, bool keeps)
{
    static const struct connection_events events = {.open = on_open, .closed = on_closed};
    connection_open(fd, keeps, &events);
    connection_hello();
    connection_flush();
    loop_run(connection_flush);
    leave();
}

/*
 * The emulated processor forgets what it has looked up with every change from one program to
 * another. An interpreter that has something to say goes on until it waits for us, and then all of
 * it is read at once. Children are not held back. (musl has no function for it.)
 */
static void let_others_finish(void)
{
    const struct sched_param none = {0};
    syscall(SYS_sched_setscheduler, 0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none);
}

static int serve_machine(bool is_trial)
{
    struct error err;
    machine_set_ours();
    let_others_finish();
    int fd = boot_machine(&err);
    if (fd < 0) {
        fprintf(stderr, "msb-agent: cannot boot: %s\n", err.message);
        machine_power_off();
    }
    if (is_trial && !trial_run())
        machine_power_off();
    settle(-1);
    return serve(fd, true);
}

static bool read_descriptor(const char *text, int *fd)
{
    char *end;
    long number = strtol(text, &end, 10);
    *fd = (int)number;
    return *end == '\0' && number >= -1 && number < 1 << 20 &&
           (number < 0 || fcntl(*fd, F_SETFD, FD_CLOEXEC) == 0);
}

/* The environment is that of the interpreter: we need none. */
static void expect_interpreter(const char *first, const char *user)
{
    int link;
    struct wires wires = {0};
    if (!read_descriptor(first, &link) || link < 0)
        return;
    for (int i = 0; i < WIRE_COUNT; i++) {
        wires.ours[i] = link + 1 + i;
        fcntl(wires.ours[i], F_SETFD, FD_CLOEXEC);
    }
    zygote_expect(user, environ, link, &wires);
}

static int serve_jail(char **arguments)
{
    int fd, group, memory, processes;
    if (!read_descriptor(arguments[0], &fd) || fd < 0 || !read_descriptor(arguments[1], &group) ||
        !read_descriptor(arguments[2], &memory) || !read_descriptor(arguments[3], &processes))
        return 2;
    machine_set_jail();
    prctl(PR_SET_DUMPABLE, 0); /* nobody in here looks into us */
    group_set(memory, processes);
    settle(group);
    if (arguments[4])
        expect_interpreter(arguments[4], arguments[5]);
    return serve(fd, false);
}

int main(int argc, char **argv)
{
    int fd;
    if (argc == 3 && strcmp(argv[1], "--fd") == 0 && read_descriptor(argv[2], &fd) && fd >= 0) {
        settle(-1);
        return serve(fd, false);
    }
    if ((argc == 6 || argc == 8) && strcmp(argv[1], "--jail") == 0)
        return serve_jail(argv + 2);
    if (argc == 4 && strcmp(argv[1], "--zygote") == 0 && read_descriptor(argv[2], &fd) && fd >= 0)
        return zygote_start(argv[3], environ, fd);
    /* The kernel hands on what it does not know of its command line, so other arguments mean
     * nothing. */
    if (getpid() == 1)
        return serve_machine(argc > 1 && strcmp(argv[argc - 1], "--trial") == 0);
    fprintf(stderr, "usage: msb-agent --fd N\n");
    return 2;
}
