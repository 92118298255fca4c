/* $MSB_HOME/server: the lock that the one server holds, and info.json. */
#pragma once

#include "server/server.h"

/* Held until closed; ERROR_BUSY when a server runs. */
int info_lock(struct error *err);
int info_write(const struct server_info *info, struct error *err);
