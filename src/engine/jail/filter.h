/* The system calls of a jail. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/*
 * The filter as the kernel takes it, in a file in memory: to make it takes 2 ms, which somebody
 * else may have while the jail is being built. With `guards_modes` no file can be made setuid or
 * setgid: what lies in a shared folder belongs to somebody on the host. Returns a descriptor.
 */
int filter_make(bool guards_modes, struct error *err);
/*
 * For the zygote, whose copies move into jails: as programs of a jail have it, but with setns. What
 * is missing to theirs is a program of the kernel's filter machine, for the copy to install inside.
 */
int filter_make_zygote(struct error *err);
int filter_write_rest(bool guards_modes, struct buf *program, struct error *err);
/* Puts it on the calling process and all it will start. no_new_privs must be set. */
int filter_install(int filter, struct error *err);
