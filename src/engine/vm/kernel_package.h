/* Debian's kernel package: its name, its download, its contents. Nothing is installed. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/*
 * Versions as "6.1.0-54-amd64", newest first: those that the distribution's metapackages stand for,
 * the plain one (linux-image-amd64) and those of newer long-term series (linux-image-6.12-amd64).
 * At least one; for strv_free.
 */
int kernel_package_resolve(char ***versions, struct error *err);
/* Whether the package is one of these metapackages. */
bool kernel_package_is_meta(const char *name, const char *architecture);
/* Newest first; NULL is fine. */
void kernel_package_sort(char **versions);
/* The versions in the text of `apt-cache show` for metapackages, newest first; NULL: none. */
char **kernel_package_parse(const char *text);

/*
 * Downloads the package of that version into the folder `workspace` and puts what matters of it
 * into the new folder `contents`, side by side: vmlinuz, modules.builtin, and all modules named
 * as modules_pick wants them.
 */
int kernel_package_fetch(const char *version, const char *workspace, const char *contents,
                         struct error *err);
