/* Packages in a session, by pip or npm as its language says. */
#pragma once

#include "session/sessions.h"

struct session_install;

/* `packages` is a list for json_decref of {"package", "name", "version", "state", "message"}, or
 * NULL with the failure. */
typedef void install_ended(void *context, json_t *packages, const struct session_failure *failure);

/* `names` ends with NULL. NULL: see the failure; `ended` is not called then. */
struct session_install *session_install_start(struct sessions *sessions,
                                              const struct session_request *request,
                                              char *const *names, uint64_t timeout_s,
                                              install_ended *ended, void *context,
                                              struct session_failure *failure);
/* Nobody waits for it any more. */
void session_install_abandon(struct session_install *install);
