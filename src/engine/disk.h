/* Files that hold an empty file system for what sandboxes write. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The file must not exist. `files`: how many it can hold; 0: as many as usual. With a journal it
 * stays whole when its user is killed; without, it is quicker. */
int disk_make(const char *path, unsigned size_mb, unsigned files, bool journal, struct error *err);
