/* One QEMU process: its command line and its start behind the wall. */
#pragma once

#include "base/error.h"
#include "engine/engine.h"
#include "engine/machine.h"
#include "engine/vm/qmp.h"

struct vm_machine {
    struct machine base;
    struct qmp qmp;
    /* Of a clone, for copies of it: the files it stands on, and its template's key. */
    int memory, disk, overlay, kept;
    unsigned memory_mb;
    char key[40];
};

/* Descriptors and names that QEMU needs. The caller keeps the descriptors. */
struct qemu_files {
    int memory;         /* read-write for a template, read-only for a clone */
    int image;          /* read-only */
    int disk;           /* read-write for a template, read-only for a clone */
    int overlay;        /* the clone's own changes to the disk; -1 for a template */
    int state;          /* the template's state; -1 for a template */
    int pages;          /* of a copy of a running machine: see pages.h; else -1 */
    int kept;           /* read-write, a disk that outlives the machine; -1: none */
    const char *kernel; /* a template boots these; NULL for a clone */
    const char *initramfs;
    const char *arguments; /* …with these for the agent; NULL: none */
};

/*
 * Starts QEMU with the machine's hardware. A template (overlay == -1) boots; a clone reads its
 * state and goes on where the template (or the machine that was saved) was. `folder` is an existing
 * folder for private mounts. Returns early: the agent's first answer tells that all went well.
 */
int qemu_start(const struct machine_spec *spec, const char *accelerator,
               const struct qemu_files *files, const char *folder, struct vm_machine **machine,
               struct error *err);
/*
 * A clone that was frozen goes on, with files->kept where it had its empty disk. Returns when it
 * does, or with an error: then it can still be started.
 */
int qemu_thaw(const struct machine_spec *spec, const char *accelerator,
              const struct qemu_files *files, int frozen, const char *folder,
              struct vm_machine **machine, struct error *err);
