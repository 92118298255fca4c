/*
 * State folders: $MSB_HOME/sandboxes/NAMESPACE/NAME holds
 *
 *   lock          held by the keeper as long as it lives
 *   config.json   what was asked for
 *   keeper.sock   where the keeper listens, 0600
 *   output.log    what commands wrote (and output.log.1, the part before)
 *   keeper.log    the keeper's own complaints
 *   disk          the sandbox's changes to its disk
 *   kept          of a copy: its copy of the disk that its original keeps
 *   origin/       of a copy, while it starts: what it starts from
 *
 * A folder whose lock can be taken has lost its keeper; sweeping removes it. Keepers made ahead,
 * which have no name yet, keep theirs in $MSB_HOME/sandboxes/.ahead, where no listing looks.
 */
#pragma once

#include "base/error.h"
#include "sandbox/config.h"

/* Makes the folder and takes its lock, which is returned. ERROR_EXISTS when a keeper has it. */
int state_create(const char *namespace, const char *name, char **folder, struct error *err);
/* The same for this process' sandbox that has no name yet… */
int state_create_ahead(char **folder, struct error *err);
/* …and now gets one: the folder moves with all it holds, and its lock is still held. */
int state_take_name(const char *namespace, const char *name, char **folder, struct error *err);
/* Removes the folder and lets go of the lock. */
void state_remove(const char *folder, int lock);

/* Removes folders without a keeper, and control groups without a maker. */
void state_sweep(void);

struct state_entry {
    char *namespace;
    char *name;
};

/* The sandboxes that have a keeper, sorted. A NULL namespace means all. */
int state_list(const char *namespace, struct state_entry **entries, size_t *count,
               struct error *err);
void state_list_free(struct state_entry *entries, size_t count);

/* The settings of one that has a keeper, as JSON for json_decref: empty while it has not written
 * them yet. NULL: there is none. */
json_t *state_settings(const char *namespace, const char *name);
/* The same without asking whether there is a keeper still. */
json_t *state_read_settings(const char *namespace, const char *name);

/* Connects to a keeper, at once: ERROR_NOT_FOUND when there is no such sandbox, ERROR_TIMEOUT when
 * its keeper takes no connections. */
int state_connect(const char *namespace, const char *name, struct error *err);
/* Makes the socket in the folder and listens on it. */
int state_listen(const char *folder, struct error *err);
