/* The system calls of a jail. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/*
 * Puts the filter on the calling process and all it will start. no_new_privs must be set. With
 * `guards_modes` no file can be made setuid or setgid: what lies in a shared folder belongs to
 * somebody on the host.
 */
int filter_install(bool guards_modes, struct error *err);
