/*
 * An image as a folder, for ordinary users, who may not mount its file: images/roots/ in the home,
 * unpacked once. Its files belong to the ids that the jails of this user have.
 */
#pragma once

#include "base/error.h"
#include "engine/engine.h"
#include "engine/own_ids.h"

/* Where it is or would be; owned by the caller. */
char *unpacked_folder(const struct machine_spec *spec, const struct own_ids *ids);
/* Unpacks the image where that has not been done yet; shows progress. */
int unpacked_ensure(const struct machine_spec *spec, const struct own_ids *ids, struct error *err);
