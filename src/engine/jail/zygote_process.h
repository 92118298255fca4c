/* The process that the zygote (zygote.h) is, from its birth to the interpreter's. */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "engine/engine.h"

/* Runs as the host's user `user` and says that it is there on `link`, its end of a socket. Dies
 * with the calling thread. */
pid_t zygote_process_start(const struct machine_spec *spec, uid_t user, int link,
                           struct error *err);
