/*
 * Disks that outlive their sandboxes. $MSB_HOME/disks/NAMESPACE/NAME holds
 *
 *   disk       the file system with everything written (engine/disk.h)
 *   kept.json  what it belongs to; a folder without it is a beginning that came to nothing
 *
 * It belongs to whoever has the state folder of that name.
 */
#pragma once

#include "base/error.h"
#include "sandbox/config.h"

/*
 * The disk of a sandbox whose files are to be kept, made when there is none: its path, or NULL when
 * they are not to be kept. Refuses one that was made for another image, engine or size. With
 * config->fresh what was kept before is thrown away.
 */
int kept_open(const struct sandbox_config *config, char **disk, struct error *err);
/* Whether kept_open would refuse, for those who have much to do before they come to it. */
int kept_check(const struct sandbox_config *config, struct error *err);
