/* A machine that begins where a template, or a machine that was saved, stopped. */
#pragma once

#include "engine/engine.h"
#include "engine/vm/qemu.h"
#include "engine/vm/template.h"

/* Its files live in `folder`. It is running, or about to. */
int clone_start(const struct machine_spec *spec, const struct template *template,
                const char *folder, struct vm_machine **machine, struct error *err);
