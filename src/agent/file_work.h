/*
 * File operations as they are done in a process of their own, which has become the user: it may
 * block, and it can do nothing that the user cannot. Contents come in on descriptor 0, contents
 * and records go out on descriptor 1, the reason of a failure on FILE_WORK_STATUS.
 */
#pragma once

#include "agent/file_request.h"
#include "base/error.h"

#define FILE_WORK_STATUS 2

/* The whole process: `request` is a struct file_request. Returns 0, or 1 after telling why not. */
int file_work_run(const void *request);

int file_work_read(const struct file_request *request, struct error *err);
int file_work_write(const struct file_request *request, struct error *err);
int file_work_stat(const struct file_request *request, struct error *err);
int file_work_list(const struct file_request *request, struct error *err);
int file_work_copy(const struct file_request *request, struct error *err);
int file_work_watch(const struct file_request *request, struct error *err);
int file_work_changes(const struct file_request *request, struct error *err);

/* open(path), which with request->beneath leads nowhere else than below the working folder and
 * follows no links. */
int file_work_open(const struct file_request *request, int flags);

/* Makes the folders that lead to path, if the request asks for that. */
int file_work_make_parents(const struct file_request *request, const char *path, struct error *err);

/*
 * A file that is not there yet under the name it will get: file_work_commit gives it that name in
 * one step. Until then it is removed if the process is told to end or the work fails. One at a
 * time.
 */
int file_work_begin(const char *path, struct error *err);
int file_work_commit(const char *path, struct error *err);

/* Whether a name, or the last part of a path, is that of such a file. */
bool file_is_temporary(const char *path);
/* Whether there was a file already where this one will be. */
bool file_temporary_replaces(const char *path);
