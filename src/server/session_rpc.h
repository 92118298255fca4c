/* Failures of sessions as JSON-RPC errors: data is what failure_json gives. */
#pragma once

#include "server/rpc.h"
#include "session/failure.h"

void session_rpc_fail(struct rpc_call *call, const struct session_failure *failure);
