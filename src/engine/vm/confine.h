/*
 * The wall around QEMU: a guest that takes QEMU over still stands in an empty room. Its own user,
 * mount, process, network, IPC and host-name namespaces; a root that holds nothing but its
 * libraries (read-only) and the shared folders; a user id of its own; no capabilities; a list of
 * allowed system calls; a control group.
 *
 * The process gets its files as open descriptors. Files it insists on opening for writing by name
 * (the machine's memory, /dev/kvm) do not exist in its root: the open is caught and answered with
 * a descriptor of ours. That is also what keeps a template's memory safe: QEMU asks for it
 * read-write but holds a read-only descriptor, mapped privately.
 *
 * Where namespaces are refused, as in most containers, a thinner wall is built (confine_thin.h) and
 * the log says so. Nothing is started where the kernel has no Landlock either, and for root of a
 * host, who can allow namespaces.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "engine/cgroup.h"
#include "engine/engine.h"

/* Where shared folder number N is inside: CONFINE_VOLUMES/N. */
#define CONFINE_VOLUMES "/volumes"
/* The first descriptor of `fds` inside; the others follow. */
#define CONFINE_FIRST_FD 3

struct confined_open {
    const char *path; /* the name QEMU opens */
    int fd;           /* what it gets */
};

struct confinement {
    char *const *argv; /* argv[0] is the program's path */
    bool is_frozen;    /* it is not executed, but thawed: see frozen.h */
    const int *fds;
    size_t fd_count;
    const struct confined_open *opens; /* each is asked for exactly once */
    size_t open_count;
    const char *const *files; /* shown read-only under their own names; ends with NULL */
    const struct machine_volume *volumes;
    size_t volume_count;
    const char *folder; /* an existing folder, used as a mount point out of everybody's sight */
    const struct cgroup *cgroup; /* where the process is born, if the host can do that */
    int stderr_fd;
    bool *is_thin; /* set when the wall is the thinner one; the one folder is then exported itself,
                      not as CONFINE_VOLUMES/0. May be NULL. */
};

/*
 * Returns when the program runs and has opened what it wanted. The process dies with the calling
 * thread's process. `pidfd` becomes readable at its end.
 */
int confine_start(const struct confinement *confinement, pid_t *process, int *pidfd,
                  struct error *err);

enum confine_wall { CONFINE_FULL, CONFINE_THIN, CONFINE_NONE };

/* Tries which wall can be built here around `program`. If it is not CONFINE_FULL, `why` says what
 * is refused and what can be done about it. */
enum confine_wall confine_look(const char *program, struct error *why);
