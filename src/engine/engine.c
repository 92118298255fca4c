#include "engine/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/jail/jail.h"
#include "engine/machine.h"
#include "engine/vm/vm.h"

#define CONSOLE_PIECE 4096
#define CONSOLE_KEPT 65536

static const struct engine *const engines[] = {&vm_engine, &jail_engine};

const struct engine *engine_find(const char *name)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    }
    return NULL;
}

void machine_init(struct machine *machine, const struct machine_ops *ops)
{
    *machine = (struct machine){
        .ops = ops, .process = -1, .exit = -1, .agent = -1, .words = -1, .console = -1};
}

int machine_agent(const struct machine *machine)
{
    return machine->agent;
}

int machine_exit(const struct machine *machine)
{
    return machine->exit;
}

int machine_console(const struct machine *machine)
{
    return machine->console;
}

void machine_hear(struct machine *machine)
{
    ssize_t got;
    struct buf *said = &machine->said;
    while (machine->console >= 0 &&
           (got = read(machine->console, buf_reserve(said, CONSOLE_PIECE), CONSOLE_PIECE)) > 0) {
        buf_commit(said, (size_t)got);
        if (buf_length(said) > CONSOLE_KEPT)
            buf_consume(said, buf_length(said) - CONSOLE_KEPT);
    }
}

pid_t machine_process(const struct machine *machine)
{
    return machine->process;
}

const char *machine_accelerator(const struct machine *machine)
{
    return machine->accelerator;
}

bool machine_shares_root(const struct machine *machine)
{
    return machine->shares_root;
}

const char *machine_kernel(const struct machine *machine)
{
    return machine->kernel;
}

/* The second and third word of statm are resident pages and those of them that belong to files. */
static uint64_t private_memory(pid_t process)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("/proc/%d/statm", (int)process);
    if (file_read(path, 4096, &text, &ignored) < 0)
        return 0;
    char *at = strchr(buf_text(&text), ' ');
    uint64_t resident = at ? strtoull(at, &at, 10) : 0;
    uint64_t shared = at ? strtoull(at, NULL, 10) : 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct machine_usage machine_usage(const struct machine *machine)
{
    clockid_t clock;
    struct timespec spent = {0};
    if (machine->process <= 0)
        return (struct machine_usage){0};
    if (machine->ops->usage)
        return machine->ops->usage(machine);
    if (clock_getcpuclockid(machine->process, &clock) == 0)
        clock_gettime(clock, &spent);
    return (struct machine_usage){
        .cpu_us = (uint64_t)spent.tv_sec * 1000000 + (uint64_t)spent.tv_nsec / 1000,
        .memory_bytes = private_memory(machine->process),
    };
}

int machine_pause(struct machine *machine, struct error *err)
{
    return machine->ops->pause(machine, err);
}

int machine_poise(struct machine *machine, struct error *err)
{
    return machine->ops->poise ? machine->ops->poise(machine, err) : 0;
}

int machine_wake(struct machine *machine, struct error *err)
{
    return machine->ops->resume(machine, err);
}

int machine_resume(struct machine *machine, struct error *err)
{
    int result = machine_wake(machine, err);
    return result == 0 && machine->ops->settle ? machine->ops->settle(machine, err) : result;
}

int machine_save(struct machine *machine, const char *folder, struct error *err)
{
    return machine->ops->save(machine, folder, err);
}

void machine_enclose(struct machine *machine)
{
    if (!machine->cgroup.limits_at_birth && machine->process > 0)
        cgroup_add(&machine->cgroup, machine->process);
    cgroup_limit_cpu(&machine->cgroup, machine->cpu_percent);
}

void machine_step_back(struct machine *machine, bool back)
{
    cgroup_step_back(&machine->cgroup, back);
}

static void reap(struct machine *machine)
{
    while (waitpid(machine->process, NULL, 0) < 0 && errno == EINTR) {
    }
    machine->process = -1;
}

/* A killed process runs no instruction of its own any more, even while the kernel is still taking
 * its memory apart. Without a group that reaches all, what else is in there ends with the first. */
void machine_kill(struct machine *machine)
{
    if (machine->process <= 0)
        return;
    kill(machine->process, SIGKILL);
    if (!cgroup_kill(&machine->cgroup))
        reap(machine);
}

/* The end of what the process wrote, on one line and without control characters. */
static const char *last_words(struct machine *machine)
{
    ssize_t got;
    char piece[sizeof machine->last_words];
    while (machine->words >= 0 && (got = read(machine->words, piece, sizeof piece - 1)) > 0) {
        piece[got] = '\0';
        memcpy(machine->last_words, piece, sizeof piece);
    }
    for (char *at = machine->last_words; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    }
    return machine->last_words;
}

void machine_explain(struct machine *machine, struct error *err)
{
    if (err->code == ERROR_CANCELLED)
        return;
    if (machine->ops->explain)
        machine->ops->explain(machine, err);
    const char *said = last_words(machine);
    if (said[0])
        error_wrap(err, "the machine says \"%s\"", said);
}

bool machine_distrust(const struct machine *machine)
{
    return machine->ops->distrust && machine->ops->distrust(machine);
}

void machine_free(struct machine *machine)
{
    if (!machine)
        return;
    machine_kill(machine);
    if (machine->process > 0)
        reap(machine);
    fd_close(machine->exit);
    fd_close(machine->agent);
    fd_close(machine->words);
    fd_close(machine->console);
    buf_free(&machine->said);
    struct cgroup group = machine->cgroup;
    machine->ops->release(machine);
    cgroup_remove(&group);
}
