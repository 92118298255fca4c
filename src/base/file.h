/* Files and folders on the host: whole-file reads and writes, trees, locks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* Everything in the file, refused above `limit` bytes. */
int file_read(const char *path, size_t limit, struct buf *out, struct error *err);
/* Replaces the file as one step: readers see the old contents or the new, never a part. */
int file_write_atomic(const char *path, const void *bytes, size_t length, mode_t mode,
                      struct error *err);
int file_write_all(int fd, const void *bytes, size_t length);
/* Copies without passing the bytes through us where the kernel can. Keeps holes where it can. */
int file_copy(const char *from, const char *to, mode_t mode, struct error *err);
bool file_exists(const char *path);

/* mkdir -p; new folders get the mode. */
int folder_make(const char *path, mode_t mode, struct error *err);
/* rm -rf that follows no link out of the tree and does not mind if it is gone already. */
int folder_remove(const char *path, struct error *err);
/* Removes a folder and the folders in it, but no files: of a control group those are the kernel's.
 * 0, or -1 with errno set. */
int folder_remove_empty(int parent, const char *name);
/* Free bytes on the file system that holds path. */
int folder_free_space(const char *path, uint64_t *bytes, struct error *err);

/*
 * An exclusive lock held by the returned descriptor until it is closed or the process dies. With
 * wait == false and somebody else holding it: ERROR_BUSY. The file is made when missing.
 */
int file_lock(const char *path, bool wait, struct error *err);
