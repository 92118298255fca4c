/*
 * A warm interpreter for a jail that is being made: a copy of the zygote (zygote.h), still outside,
 * that waits to move in. It can do that only where the jail's user namespace belongs to its user.
 * It has to be in the jail's control group by then, and it is told to go when the agent runs, whose
 * child it becomes. Whatever goes wrong, the agent finds its wires cut and starts an interpreter of
 * its own.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "engine/cgroup.h"
#include "engine/engine.h"

#define WARM_ENDS 5

struct warm_copy {
    pid_t process;
    int pidfd;
    uid_t owner;
    int control;
    int agent_ends[WARM_ENDS]; /* the link, stdout, stderr, commands, messages */
    int its_ends[WARM_ENDS];   /* stdout, stderr, commands, messages, the link */
};

/* What the keeper of a zygote sends for each connection, with the copy's control socket. */
struct warm_offer {
    pid_t process;
    uid_t owner;
};

/* Where that is to be had, for images of this kind. */
socklen_t warm_address(const struct machine_spec *spec, struct sockaddr_un *address);
/* As whom it runs in the jail. */
const char *warm_user(const struct machine_spec *spec);

/* False when there is none to be had at once, or when the jail begins with files of its own, for
 * the copy has loaded those of the image. */
bool warm_take(const struct machine_spec *spec, uid_t first_user, struct warm_copy *copy);
/* User namespaces that the calling thread makes belong to the copy's user, or to root again. */
bool warm_act_as_owner(const struct warm_copy *copy);
void warm_act_as_root(void);
/* Tells it to enter the jail's control group, which it does by itself meanwhile. */
bool warm_seat(const struct warm_copy *copy, const int doors[CGROUP_FOLDERS]);
/* Lets it move into the jail of this process. */
void warm_admit(struct warm_copy *copy, int pidfd, bool guards_modes);
/* Closes all that is left of it on this side, but for `pidfd`. */
void warm_let_go(struct warm_copy *copy);
/* Closes that, too. Its process is in the jail's control group, but not in the jail: what moves in
 * is a child of it. Usually it has ended long before; when this returns it has in any case. */
void warm_end(int pidfd);
