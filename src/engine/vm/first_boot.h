/*
 * Boots a machine from its kernel. Only templates and trials of kernels do that; every other
 * machine is a clone.
 */
#pragma once

#include "engine/engine.h"
#include "engine/vm/kernel.h"
#include "engine/vm/qemu.h"

struct first_boot {
    const struct machine_spec *spec;
    const struct kernel *kernel;
    const char *accelerator;
    const char *folder;    /* an existing one; the machine's writable disk is made there: "disk" */
    const char *arguments; /* for the agent inside; NULL: none */
};

/*
 * Returns when the agent has greeted, with the machine and a descriptor of its memory. A machine
 * that falls silent on the way is given up and booted once more. When that fails too, the console
 * is saved in a file that the error names.
 */
int first_boot(const struct first_boot *boot, int *memory, struct vm_machine **machine,
               struct error *err);
