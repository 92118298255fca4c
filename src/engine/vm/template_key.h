#pragma once

#include "engine/engine.h"
#include "engine/vm/kernel.h"

/* A hash of everything that shapes a template: image, kernel, agent, QEMU, size, accelerator. */
int template_key(const struct machine_spec *spec, const struct kernel *kernel,
                 const char *accelerator, char **key, struct error *err);
