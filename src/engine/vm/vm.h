#pragma once

#include "engine/engine.h"

/* Virtual machines by QEMU, cloned from warm templates. */
extern const struct engine vm_engine;
