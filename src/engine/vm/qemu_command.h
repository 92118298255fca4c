/* How QEMU is told which machine it is to be. */
#pragma once

#include "engine/vm/confine.h"
#include "engine/vm/qemu.h"

/* Names under which QEMU opens what it is given; see confine.h. */
#define QEMU_MEMORY "/memory"
#define QEMU_KVM "/dev/kvm"

/* Numbers of the descriptors inside, in the order they are handed over. */
enum {
    QEMU_FD_QMP = CONFINE_FIRST_FD,
    QEMU_FD_AGENT,
    QEMU_FD_CONSOLE,
    QEMU_FD_IMAGE,
    QEMU_FD_DISK,
    QEMU_FD_OVERLAY,
    QEMU_FD_STATE,
    QEMU_FD_KEPT
};

/* For strv_free. */
char **qemu_command(const struct machine_spec *spec, const char *program, const char *accelerator,
                    const struct qemu_files *files);
/* Everything about the machine's hardware and kernel settings that a clone must share with its
 * template, as text. */
void qemu_describe(const struct machine_spec *spec, const char *accelerator, struct buf *out);
