#include "engine/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/agent_call.h"
#include "engine/jail/place.h"
#include "engine/jail/process.h"
#include "engine/jail/saved.h"
#include "engine/jail/unpacked.h"
#include "engine/jail/warm.h"
#include "engine/jail/zygote.h"
#include "engine/machine.h"
#include "engine/mounts.h"

#define GREETING_MS 10000
/* Ranges of host ids that no account has, above those of machines. */
#define FIRST_HOST_USER 2000000000u
#define RANGES 34000u

struct jail_machine {
    struct machine base;
    int range; /* holds our range of ids, under root */
    int disk;  /* what was written inside */
    int copy;  /* of the zygote, whose child moved in; -1: none */
    struct own_ids own;
    char *unpacked;
};

/* The list lacks modules that nobody has needed yet, but it is quicker to read than to try. */
static bool is_loaded(const char *file_system)
{
    struct error ignored;
    cleanup_buf struct buf list = {0};
    cleanup_free char *line = xasprintf("\t%s\n", file_system);
    return file_read("/proc/filesystems", 65536, &list, &ignored) == 0 &&
           strstr(buf_text(&list), line);
}

/* NULL, or why there is no such file system: `absent` when the kernel has none. */
static const char *find_file_system(const char *type, const char *absent)
{
    int result = is_loaded(type) ? 0 : mount_try_type(type);
    if (result == 0)
        return NULL;
    return result == ENODEV ? absent : "file systems cannot be mounted here";
}

const char *jail_missing(void)
{
    const char *why = find_file_system("overlay", "the kernel has no overlay file system");
    if (why || geteuid() != 0)
        return why;
    why = find_file_system("erofs", "the kernel has no erofs, the file system of images");
    if (why)
        return why;
    if (!cgroup_available(&why))
        return why;
    return NULL;
}

char *jail_weaknesses(void)
{
    const char *why;
    if (geteuid() == 0)
        return NULL;
    cleanup_buf struct buf text = {0};
    const struct own_ids ids = own_ids_find(JAIL_FIRST_USER);
    buf_append_text(&text, "processes inside have your id on the host");
    if (!own_ids_are_many(&ids))
        buf_append_text(&text, ", the only one they have, so there is no root inside");
    if (!cgroup_available(&why))
        buf_printf(&text,
                   "; memory and processes are limited for each process and user inside, not for "
                   "the sandbox as a whole, and processor time is not (%s)",
                   why);
    return xstrdup(buf_text(&text));
}

const char *jail_remedy(void)
{
    const char *why;
    const struct own_ids ids = own_ids_find(JAIL_FIRST_USER);
    if (!own_ids_are_many(&ids))
        return "apt-get install uidmap; usermod --add-subuids 100000-165535 --add-subgids "
               "100000-165535 NAME";
    return cgroup_available(&why) ? "run msb as root for ids of its own for each jail"
                                  : "systemd-run --user --scope -p Delegate=yes msb …, or run msb "
                                    "as root";
}

static int check_host(struct error *err)
{
    const char *missing = jail_missing();
    if (!missing)
        return 0;
    error_set(err, ERROR_MISSING, "the jail engine cannot be used here: %s", missing);
    return error_hint(err, "modprobe -a erofs overlay, enable the controllers memory and pids, or "
                           "use --engine vm");
}

/* With one id alone it is that of whoever runs things inside. */
static struct own_ids find_own_ids(const struct machine_spec *spec)
{
    struct own_ids ids = own_ids_find(JAIL_FIRST_USER);
    if (!own_ids_are_many(&ids))
        ids.inside = jail_user(spec);
    return ids;
}

static int jail_prepare(const struct machine_spec *spec, struct error *err)
{
    int result = jail_place_check(err);
    if (result < 0)
        return error_wrap(err, "the jail engine cannot be used here");
    result = check_host(err);
    if (result < 0 || geteuid() == 0)
        return result;
    const struct own_ids ids = find_own_ids(spec);
    return unpacked_ensure(spec, &ids, err);
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
    struct statvfs disk = {0};
    bool knows_disk = fstatvfs(((const struct jail_machine *)machine)->disk, &disk) == 0;
    return (struct machine_usage){.cpu_us = cgroup_cpu_us(&machine->cgroup),
                                  .memory_bytes = cgroup_memory_bytes(&machine->cgroup),
                                  .knows_disk = knows_disk,
                                  .disk_bytes = (disk.f_blocks - disk.f_bfree) * disk.f_frsize};
}

static int save_jail(struct machine *machine, const char *folder, struct error *err)
{
    struct error late;
    int result = pause_jail(machine, err);
    if (result < 0)
        return result;
    result = saved_pack(machine->process, ((struct jail_machine *)machine)->disk, folder, err);
    if (resume_jail(machine, &late) < 0 && result == 0) {
        *err = late;
        result = -1;
    }
    return result;
}

static void release_jail(struct machine *machine)
{
    struct jail_machine *jail = (struct jail_machine *)machine;
    warm_end(jail->copy);
    fd_close(jail->range);
    fd_close(jail->disk);
    free(jail->unpacked);
    free(jail);
}

static const struct machine_ops ops = {
    .pause = pause_jail,
    .resume = resume_jail,
    .save = save_jail,
    .usage = measure_jail,
    .release = release_jail,
};

static struct jail_machine *make_machine(const struct machine_spec *spec)
{
    struct jail_machine *made = xcalloc(1, sizeof *made);
    struct machine *base = &made->base;
    machine_init(base, &ops);
    made->range = made->disk = made->copy = -1;
    base->cpu_percent = spec->cpu_percent ? spec->cpu_percent : spec->cpus * 100;
    snprintf(base->accelerator, sizeof base->accelerator, "native");
    return made;
}

/* A machine has limits by what it is; a jail has none but these. */
static int set_limits(const struct machine_spec *spec, struct machine *base, bool *hold,
                      struct error *err)
{
    /* The agent is one process more than was asked for. */
    const struct cgroup_limits limits = {.memory_bytes = (uint64_t)spec->memory_mb << 20,
                                         .processes = spec->processes + 1};
    cgroup_create(&base->cgroup, &limits);
    cgroup_limit_cpu(&base->cgroup, base->cpu_percent);
    *hold = cgroup_holds(&base->cgroup, &limits);
    if (*hold || geteuid() != 0)
        return 0;
    error_set(err, ERROR_MISSING, "the host cannot limit the memory and processes of a jail");
    return error_hint(err, "enable the controllers memory and pids of its control groups, or use "
                           "--engine vm");
}

/* Whose ids it has, and what follows from that. */
static int give_ids(struct jail_process *process, struct jail_machine *jail, struct error *err)
{
    if (geteuid() == 0) {
        jail->range = jail_take_range(&process->first_user, err);
        return jail->range < 0 ? -1 : 0;
    }
    if (process->spec->disk) {
        error_set(err, ERROR_MISSING, "only root can keep the files of a jail");
        return error_hint(err, "run msb as root, or use --engine vm");
    }
    jail->own = find_own_ids(process->spec);
    jail->unpacked = unpacked_folder(process->spec, &jail->own);
    process->own = &jail->own;
    process->unpacked = jail->unpacked;
    if (!file_exists(jail->unpacked))
        return error_set(err, ERROR_NOT_FOUND, "the image has not been unpacked for jails yet");
    return 0;
}

static int start_agent(struct jail_process *process, struct jail_machine *jail, struct error *err)
{
    struct machine *base = &jail->base;
    struct warm_copy warm;
    int agent[2], words[2];
    int result = give_ids(process, jail, err);
    if (result < 0)
        return result;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    base->agent = agent[0];
    cleanup_fd int theirs = agent[1];
    if (pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    base->words = words[0];
    cleanup_fd int errors = words[1];
    const char *from = process->spec->from;
    cleanup_fd int archive = from ? saved_open(from, err) : -1;
    if (from && archive < 0)
        return archive;
    process->agent = theirs;
    process->archive = archive;
    process->stderr_fd = errors;
    process->warm =
        !process->own && warm_take(process->spec, process->first_user, &warm) ? &warm : NULL;
    result = jail_process_start(process, &base->process, &base->exit, &jail->disk, err);
    if (process->warm) {
        warm_let_go(&warm);
        jail->copy = warm.pidfd;
    }
    process->warm = NULL;
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
    bool limited;
    result = set_limits(spec, base, &limited, err);
    struct jail_process process = {.spec = spec,
                                   .place = place,
                                   .cgroup = &base->cgroup,
                                   .archive = -1,
                                   .limits_processes = !limited};
    if (result == 0)
        result = start_agent(&process, made, err);
    if (result == 0)
        result = agent_greeting(base->agent, GREETING_MS, base->kernel, sizeof base->kernel, err);
    if (result < 0) {
        machine_explain(base, err);
        machine_free(base);
        return -1;
    }
    *machine = base;
    return 0;
}

static bool jail_can_keep(void)
{
    return geteuid() == 0;
}

const struct engine jail_engine = {
    .name = "jail",
    .prepare = jail_prepare,
    .start = jail_start,
    .weaknesses = jail_weaknesses,
    .can_keep = jail_can_keep,
    .keep_warm = zygote_keep,
};
