/* The system calls of a jail. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/*
 * Puts the filter on the calling process and all it will start. no_new_privs must be set. With
 * `guards_modes` no file can be made setuid or setgid: what lies in a shared folder belongs to
 * somebody on the host.
 */
int filter_install(bool guards_modes, struct error *err);
/*
 * For the zygote, whose copies move into jails: as programs of a jail have it, but with setns. What
 * is missing to theirs is a program of the kernel's filter machine, for the copy to install inside.
 */
int filter_install_zygote(struct error *err);
int filter_write_rest(bool guards_modes, struct buf *program, struct error *err);
