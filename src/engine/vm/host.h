/* What this host offers to virtual machines: QEMU, acceleration, the speed of its counter. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/* The path of QEMU for this architecture, or NULL. Owned by the caller. */
char *host_qemu(void);

/* What the state of a machine that runs on the processor itself depends on, as text: processor and
 * host kernel. */
void host_describe_processor(struct buf *out);

/* Whether machines can run on the processor itself; `why` gets the reason when they cannot. */
bool host_kvm_usable(const char **why);

/* "kvm" or "tcg": the wanted one when it can be had, the best one for NULL. */
int host_accelerator(const char *wanted, const char **chosen, struct error *err);

/* Rate of the time stamp counter in kHz; 0 where there is none. Takes about 20 ms. */
unsigned long host_counter_khz(void);
