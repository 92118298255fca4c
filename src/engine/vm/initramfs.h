/* The first file system of a machine: the agent as /init and the kernel modules it loads. */
#pragma once

#include "base/error.h"
#include "engine/vm/kernel.h"

int initramfs_write(const char *path, const struct kernel *kernel, struct error *err);
