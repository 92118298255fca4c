/* Starting sandboxes: a keeper of its own for each. */
#pragma once

#include "base/error.h"
#include "image/image.h"
#include "sandbox/config.h"

/* Fills in what the image decides: its file, user, working folder, environment, language. */
void launch_apply_image(struct sandbox_config *config, const struct image *image);

/* Makes everything that a start of this sandbox needs and that takes long; shows progress. */
int launch_prepare(const struct sandbox_config *config, struct error *err);

/*
 * Starts a keeper for it by forking: the caller has no other threads. Returns the owner's
 * connection, on which OP_START is under way as stream LAUNCH_STREAM: it ends when the sandbox is
 * ready or could not be started.
 */
int launch_keeper(const struct sandbox_config *config, struct error *err);

/* The two halves of it: a keeper that waits for its settings, and the settings for it. */
int launch_fork(const char *name, struct error *err);
int launch_begin(int connection, const struct sandbox_config *config, struct error *err);

#define LAUNCH_STREAM 1
