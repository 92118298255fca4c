#pragma once

#include "engine/engine.h"
#include "engine/vm/template.h"

/* Adds TEMPLATE_FROZEN or TEMPLATE_SETTLED to a template, if that can be done here; if not, notes
 * that it cannot. Fails only when it is cancelled. */
int template_freeze(const struct template *template, const struct machine_spec *spec,
                    const char *name, struct error *err);
