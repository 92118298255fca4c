/* Builds an image from its recipe: packages by mmdebstrap, then one erofs file. */
#pragma once

#include "image/recipes.h"

/* ERROR_MISSING, with what to install, when the host lacks a program. */
int build_check_tools(struct error *err);
/* Leaves the image in the store, or nothing at all. */
int build_image(const struct recipe *recipe, struct error *err);
