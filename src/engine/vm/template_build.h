#pragma once

#include "engine/engine.h"
#include "engine/vm/kernel.h"

/* The files of a template beside template.json, which has their sizes; ends with NULL. */
extern const char *const template_files[];

/* Boots a machine, warms it and writes it down in `folder`, which is empty. */
int template_build(const char *folder, const struct machine_spec *spec, const struct kernel *kernel,
                   const char *accelerator, struct error *err);
