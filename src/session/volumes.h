/* Folders of the host that sessions share: how they are written, and who may have which. */
#pragma once

#include <jansson.h>

#include "base/error.h"

/*
 * A JSON array of HOST:GUEST[:ro], the same with commas between them, or one. NULL: none. Each host
 * folder must exist. `variable` is named in errors. The list is for strv_free.
 */
int volumes_read(const char *variable, const char *text, char ***volumes, struct error *err);
/* A list of folders of the host in the same forms; symbolic links in them are resolved. */
int volumes_read_roots(const char *variable, const char *text, char ***folders, struct error *err);
/* Whether the host's side of the volume is one of the folders or lies below one. */
int volumes_check(const char *volume, char *const *roots, struct error *err);
/* [{"host_path", "container_path"}], for json_decref. */
json_t *volumes_json(char *const *volumes);
