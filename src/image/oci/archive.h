/* Images as files: the layout of OCI, as a folder or in a tar archive, and docker's archives. */
#pragma once

#include "base/error.h"

/*
 * Takes an image from a folder or an archive into the store. `name` may be NULL when the archive
 * has one; *reference is its full form. `tag` (may be NULL) chooses among several by the name they
 * have in the layout.
 */
int archive_import(const char *path, const char *name, const char *tag, char **reference,
                   struct error *err);
/* Writes an archive that both kinds of tools read. Only for what has layers. */
int archive_export(const char *reference, int fd, struct error *err);
