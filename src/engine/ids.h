/* User and group ids of the host as processes and mounts of a user namespace see them. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* file: uid_map, gid_map or setgroups of a process that is new in its user namespace. */
int ids_write_map(pid_t process, const char *file, const char *text, struct error *err);
/* A user namespace with these maps, as a descriptor. */
int ids_namespace(const char *users, const char *groups, struct error *err);
/* A user namespace that translates one host id to another, as a descriptor. */
int ids_translation(uid_t from_user, gid_t from_group, uid_t to, struct error *err);
