/*
 * Applies one layer, a tar archive as it is or compressed, to a root file system: owners, modes,
 * times and what hides files of lower layers. Devices are not made, for each sandbox has its own.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "image/oci/tree.h"

/* What is left of what an image may have in all. */
struct layer_budget {
    uint64_t bytes;
    uint64_t entries;
};

#define LAYER_BUDGET ((struct layer_budget){.bytes = (uint64_t)64 << 30, .entries = 2000000})

/* Reads the archive from the descriptor. Afterwards the tree is ready for the next layer. */
int layer_apply(struct tree *tree, int archive, struct layer_budget *budget, struct error *err);
