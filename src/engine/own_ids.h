/*
 * The ids of an ordinary user in a user namespace of his own: his own one, and those that the
 * system has given him besides (/etc/subuid, /etc/subgid), which newuidmap writes down for him.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define NAMESPACE_IDS 65536u

struct own_ids {
    uid_t inside;                     /* what his own user and group show as */
    unsigned first_user, first_group; /* of the others inside; 0: there are none */
};

/* Looks up what the calling user has. */
struct own_ids own_ids_find(uid_t inside);
static inline bool own_ids_are_many(const struct own_ids *ids)
{
    return ids->first_user && ids->first_group;
}

/* For a process that is new in its user namespace. */
int own_ids_map(const struct own_ids *ids, pid_t process, struct error *err);
/* A user namespace with these ids, as a descriptor. */
int own_ids_space(const struct own_ids *ids, struct error *err);
