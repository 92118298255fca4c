/*
 * Machines written down while they run, and copies of them. A folder that vm_save has filled holds
 *
 *   ram, disk     those of the template, as links; never written to
 *   pages         what the machine has changed of its memory
 *   state         its processors and devices
 *   overlay       its changes to the disk
 *   kept          a copy of the disk that outlives it, if it has one
 *   machine.json  what it is, to be recognised by a copy
 *
 * and stands on its own: the template may go.
 */
#pragma once

#include "engine/engine.h"
#include "engine/vm/template.h"

int vm_save(struct machine *machine, const char *folder, struct error *err);
/* The folder as something to clone; refused when a machine for `spec` would be another one. */
int vm_saved(const struct machine_spec *spec, struct template *template, struct error *err);
