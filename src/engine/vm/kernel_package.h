/* Debian's kernel package: its name, its download, its contents. Nothing is installed. */
#pragma once

#include "base/error.h"

/* "6.1.0-54-amd64": the newest that the host's package lists know for this processor. */
int kernel_package_resolve(char **version, struct error *err);
/* The version in the text of `apt-cache show` for the metapackage; NULL when there is none. */
char *kernel_package_parse(const char *text);

/*
 * Downloads the package of that version into the folder `workspace` and puts what matters of it
 * into the new folder `contents`, side by side: vmlinuz, modules.builtin, and all modules named
 * as modules_pick wants them.
 */
int kernel_package_fetch(const char *version, const char *workspace, const char *contents,
                         struct error *err);
