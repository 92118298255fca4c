/*
 * The zygote of an image: its Python, with the heavy packages loaded, that runs nobody's code and
 * makes copies of itself, which move into jails (warm.h). It is in no jail, since only a process
 * outside can enter one. Around it are a root of its own (the image, no /proc), namespaces of its
 * own for mounts, network, IPC and names, a user id that nobody else has, no capabilities, and the
 * system calls of a jail with setns. It can enter jails that were made for it, and no others.
 */
#pragma once

#include "engine/engine.h"

/* As struct engine says of keep_warm. */
int zygote_keep(const struct machine_spec *spec, int until, struct error *err);
