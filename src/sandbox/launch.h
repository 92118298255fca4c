/* Starting sandboxes: a keeper of its own for each. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "image/image.h"
#include "sandbox/config.h"

/* Fills in what the image decides: its file, user, working folder, environment, language. */
void launch_apply_image(struct sandbox_config *config, const struct image *image);
/* The same for an image that is in the store, and quick. */
int launch_find_image(struct sandbox_config *config, struct error *err);

/* Makes everything that a start of this sandbox needs and that takes long; shows progress. */
int launch_prepare(const struct sandbox_config *config, struct error *err);

/* The rest, for one that is made ahead and has the time; see the engine's settle. */
int launch_settle(const struct sandbox_config *config, struct error *err);

/* Helps later starts of the same image, as the engine's keep_warm. */
int launch_keep_warm(const struct sandbox_config *config, int until, struct error *err);

/*
 * Starts a keeper for it by forking: the caller has no other threads. Returns the owner's
 * connection, on which OP_START is under way as stream LAUNCH_STREAM: it ends when the sandbox is
 * ready or could not be started.
 *
 * `call` may be NULL. Otherwise it is a whole operation as call_frames makes it, of the stream
 * LAUNCH_CALL_STREAM, and the sandbox gets it together with its settings: it ends behind OP_START.
 */
int launch_keeper(const struct sandbox_config *config, const struct buf *call, struct error *err);

/* The two halves of it: a keeper that waits for its settings, called `name` where processes are
 * listed, and the settings for it (launch_settings), or for one that was made ahead. */
int launch_fork(const char *name, struct error *err);
char *launch_settings(const struct sandbox_config *config);
int launch_begin(int connection, const char *settings, const struct buf *call, struct error *err);

/*
 * The same for a copy of a running sandbox, or of a snapshot, of the same namespace. All settings
 * but the name are taken over; ports are not led to it.
 */
struct launch_copy {
    const char *namespace;
    const char *name;
    const char *fork_of;  /* either this… */
    const char *snapshot; /* …or this */
};
int launch_copy(const struct launch_copy *copy, struct error *err);

/*
 * Starts a keeper ahead, whose machine has what sandbox_config_machine_text says. On the connection
 * that is returned OP_PREPARE is under way as LAUNCH_STREAM; it ends when the machine waits for its
 * settings. The keeper ends with the connection.
 */
int launch_ahead(const char *machine_text, struct error *err);

#define LAUNCH_STREAM 1
#define LAUNCH_CALL_STREAM 2
#define LAUNCH_CALL_MAX 16384 /* bytes */
/* What a server starts has no more, so that it need not wait for whom it sends them to. */
#define LAUNCH_SETTINGS_MAX 65536
