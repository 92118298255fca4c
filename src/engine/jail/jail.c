#include "engine/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/agent_call.h"
#include "engine/jail/process.h"
#include "engine/jail/warm.h"
#include "engine/jail/zygote.h"
#include "engine/machine.h"

#define GREETING_MS 10000
/* Ranges of host ids that no account has, above those of machines. */
#define FIRST_HOST_USER 2000000000u
#define RANGES 34000u

struct jail_machine {
    struct machine base;
    int range; /* holds our range of ids */
    int copy;  /* of the zygote, whose child moved in; -1: none */
};

static bool kernel_has(const char *file_system)
{
    struct error ignored;
    cleanup_buf struct buf list = {0};
    cleanup_free char *line = xasprintf("\t%s\n", file_system);
    return file_read("/proc/filesystems", 65536, &list, &ignored) == 0 &&
           strstr(buf_text(&list), line);
}

const char *jail_missing(void)
{
    const char *why;
    if (geteuid() != 0)
        return "only root may mount an image and give a jail users of its own";
    if (!kernel_has("erofs"))
        return "the kernel has no erofs, the file system of images";
    if (!kernel_has("overlay"))
        return "the kernel has no overlay file system";
    if (!cgroup_available(&why))
        return "there are no control groups to limit it with";
    return NULL;
}

static int check_host(struct error *err)
{
    const char *missing = jail_missing();
    if (!missing)
        return 0;
    error_set(err, ERROR_MISSING, "the jail engine cannot be used here: %s", missing);
    return error_hint(err, geteuid() ? "run msb as root, or use --engine vm, which needs no root"
                                     : "modprobe erofs overlay, or use --engine vm");
}

static int jail_prepare(const struct machine_spec *spec, struct error *err)
{
    (void)spec;
    return check_host(err);
}

int jail_take_range(uid_t *first_user, struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a socket");
    unsigned start = (unsigned)getpid() % RANGES;
    for (unsigned i = 0; i < RANGES; i++) {
        unsigned range = (start + i) % RANGES;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "msb-jail-%u", range);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        if (bind(fd, (struct sockaddr *)&name, size) == 0) {
            *first_user = FIRST_HOST_USER + range * JAIL_USERS;
            return steal_fd(&fd);
        }
    }
    return error_set(err, ERROR_LIMIT, "all %u ranges of user ids are taken", RANGES);
}

static int pause_jail(struct machine *machine, struct error *err)
{
    return cgroup_freeze(&machine->cgroup, true, err);
}

static int resume_jail(struct machine *machine, struct error *err)
{
    return cgroup_freeze(&machine->cgroup, false, err);
}

static struct machine_usage measure_jail(const struct machine *machine)
{
    return (struct machine_usage){.cpu_us = cgroup_cpu_us(&machine->cgroup),
                                  .memory_bytes = cgroup_memory_bytes(&machine->cgroup)};
}

static void release_jail(struct machine *machine)
{
    struct jail_machine *jail = (struct jail_machine *)machine;
    warm_end(jail->copy);
    fd_close(jail->range);
    free(jail);
}

static const struct machine_ops ops = {
    .pause = pause_jail,
    .resume = resume_jail,
    .usage = measure_jail,
    .release = release_jail,
};

static struct jail_machine *make_machine(const struct machine_spec *spec)
{
    struct jail_machine *made = xcalloc(1, sizeof *made);
    struct machine *base = &made->base;
    machine_init(base, &ops);
    made->range = made->copy = -1;
    base->cpu_percent = spec->cpu_percent ? spec->cpu_percent : spec->cpus * 100;
    snprintf(base->accelerator, sizeof base->accelerator, "native");
    return made;
}

/* A machine has limits by what it is; a jail has none but these. */
static int set_limits(const struct machine_spec *spec, struct machine *base, struct error *err)
{
    /* The agent is one process more than was asked for. */
    const struct cgroup_limits limits = {.memory_bytes = (uint64_t)spec->memory_mb << 20,
                                         .processes = spec->processes + 1};
    cgroup_create(&base->cgroup, &limits);
    cgroup_limit_cpu(&base->cgroup, base->cpu_percent);
    if (cgroup_holds(&base->cgroup, &limits))
        return 0;
    error_set(err, ERROR_MISSING, "the host cannot limit the memory and processes of a jail");
    return error_hint(err, "enable the controllers memory and pids of its control groups, or use "
                           "--engine vm");
}

static int start_agent(const struct machine_spec *spec, const char *place,
                       struct jail_machine *jail, struct error *err)
{
    struct machine *base = &jail->base;
    struct warm_copy warm;
    uid_t first_user;
    int agent[2], words[2];
    jail->range = jail_take_range(&first_user, err);
    if (jail->range < 0)
        return jail->range;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    base->agent = agent[0];
    cleanup_fd int theirs = agent[1];
    if (pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    base->words = words[0];
    cleanup_fd int errors = words[1];
    const struct jail_process process = {
        .spec = spec,
        .place = place,
        .cgroup = &base->cgroup,
        .first_user = first_user,
        .agent = theirs,
        .stderr_fd = errors,
        .warm = warm_take(spec, first_user, &warm) ? &warm : NULL,
    };
    int result = jail_process_start(&process, &base->process, &base->exit, err);
    if (process.warm) {
        warm_let_go(&warm);
        jail->copy = warm.pidfd;
    }
    return result;
}

static int jail_start(const struct machine_spec *spec, const char *folder, struct machine **machine,
                      struct error *err)
{
    cleanup_free char *place = xasprintf("%s/root", folder);
    int result = check_host(err);
    if (result == 0)
        result = folder_make(place, 0700, err);
    if (result < 0)
        return result;
    struct jail_machine *made = make_machine(spec);
    struct machine *base = &made->base;
    result = set_limits(spec, base, err);
    if (result == 0)
        result = start_agent(spec, place, made, err);
    if (result == 0)
        result = agent_greeting(base->agent, GREETING_MS, base->kernel, sizeof base->kernel, err);
    if (result < 0) {
        machine_explain(base, err);
        machine_free(base);
        return -1;
    }
    base->cgroup.limits_at_birth = true;
    *machine = base;
    return 0;
}

const struct engine jail_engine = {
    .name = "jail",
    .prepare = jail_prepare,
    .start = jail_start,
    .keep_warm = zygote_keep,
};
