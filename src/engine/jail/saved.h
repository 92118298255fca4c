/*
 * What was written in a jail, as an archive: the layer over the image, with the owners that the
 * jail sees, so that it fits one with other ids. tar does the work, as the root of the jail and
 * nobody else's.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* Of the frozen jail of that process, into an existing folder. */
int saved_pack(pid_t process, int disk, const char *folder, struct error *err);
/* Of a folder that was made so. */
int saved_open(const char *folder, struct error *err);
/* In the process that becomes the jail, before it moves in. Changes the working folder. */
int saved_unpack(int archive, int disk, struct error *err);
