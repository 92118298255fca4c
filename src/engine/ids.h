/* User and group ids of the host as processes and mounts of a user namespace see them. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* file: uid_map, gid_map or setgroups of a process that is new in its user namespace. */
int ids_write_map(pid_t process, const char *file, const char *text, struct error *err);
/* A user namespace as a descriptor; `map` writes the maps of the process that holds it so long. */
typedef int ids_mapper(const void *with, pid_t process, struct error *err);
int ids_space(ids_mapper *map, const void *with, struct error *err);
/* What a process lacks to give such an id of the host to others, and mounts for them; NULL:
 * nothing. Root of a container lacks something. */
const char *ids_lacking(uid_t id);
/* A user namespace that translates one host id to another, as a descriptor. */
int ids_translation(uid_t from_user, gid_t from_group, uid_t to, struct error *err);
