/* The engine that isolates by the host's own kernel: native speed, a thinner wall. */
#pragma once

#include "engine/engine.h"

extern const struct engine jail_engine;
