/* The machine as a whole: whether it is ours to change, and how it ends. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* True when we booted it. Otherwise clock, entropy and mounts belong to somebody else. */
bool machine_is_ours(void);
void machine_set_ours(void);
/* True when we are the first process of a jail, whose names are ours but not its kernel. */
bool machine_is_jail(void);
void machine_set_jail(void);

void machine_add_entropy(const uint8_t *bytes, size_t length);
int machine_set_clock(uint64_t realtime_us, struct error *err);
/* spec: INDEX:ro|rw:GUEST-PATH; without an index all of the share is this one folder. */
int machine_mount_volume(const char *spec, struct error *err);
/* Of a copy: those of its original, which the host knows nothing of here. */
void machine_unmount_volumes(void);
_Noreturn void machine_power_off(void);
