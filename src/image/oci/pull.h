/* An image from its registry into the store, whole or not at all. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The full form of a reference. *changed is false when the store has what the registry has. */
int pull_image(const char *reference, bool insecure, bool *changed, struct error *err);
