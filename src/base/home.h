/*
 * $MSB_HOME (default ~/.microsandbox): everything msb keeps on the host.
 *
 *   kernels/VERSION/         vmlinux and the modules a machine needs
 *   images/                  blobs/DIGEST.erofs and refs/NAME.json; oci/ and partial/ for pulls;
 *                            roots/ for jails of ordinary users
 *   templates/KEY/           booted, warmed, snapshotted machines
 *   snapshots/NAMESPACE/NAME/  running sandboxes that were written down
 *   disks/NAMESPACE/NAME/    files that outlive their sandboxes
 *   sandboxes/NAMESPACE/NAME/  the state folder of one sandbox, locked by its keeper
 *   logs/NAMESPACE/NAME/     what the sandboxes of projects printed
 *   tmp/                     work in progress; each entry is locked by whoever makes it
 */
#pragma once

#include "base/error.h"

/* The folder's path, absolute. */
const char *home_folder(void);
/* A path below it; owned by the caller. */
char *home_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A fresh folder below tmp/ for building something that is renamed into place when whole. The
 * returned lock descriptor must stay open until the folder was renamed away or removed; folders
 * whose maker died are swept by the next call.
 */
int home_workspace(char **path, struct error *err);
/* Removes what is left of a workspace and lets go of its lock. */
void home_workspace_end(const char *path, int lock);
