/* The modules a machine needs, picked from those of a kernel package. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * `package` is a folder with the package's modules side by side (NAME.ko, perhaps .xz, .zst or
 * .gz; NAME with '_' for '-') and its modules.builtin. Fills the new folder `modules` with
 * uncompressed .ko files and `order`.
 */
int modules_pick(const char *package, const char *modules, struct error *err);

/* The names in a module's depends= entry, for strv_free; ERROR_INVALID when one is no name. */
int modules_read_depends(const uint8_t *bytes, size_t size, char ***names, struct error *err);
/* "crc32c-intel.ko.xz" → "crc32c_intel"; NULL when it is not a module's file name. */
char *modules_name_of(const char *file_name);
