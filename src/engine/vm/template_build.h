#pragma once

#include "base/buf.h"
#include "engine/engine.h"
#include "engine/vm/kernel.h"

/* The files of a template beside template.json, which has their sizes; ends with NULL. */
extern const char *const template_files[];

/* Boots a machine, warms it and writes it down in `folder`, which is empty. */
int template_build(const char *folder, const struct machine_spec *spec, const struct kernel *kernel,
                   const char *accelerator, struct error *err);
/* The settings that every machine of this kind has, as fields of OP_ADOPT. */
void template_describe_adoption(const struct machine_spec *spec, const char *name,
                                struct buf *fields);
