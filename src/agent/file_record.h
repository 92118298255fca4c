/*
 * Records that a file operation sends: each a u32 length and a JSON object. Members are put into a
 * buffer, the object is closed when it is added to those that wait to be sent.
 */
#pragma once

#include <sys/stat.h>

#include "agent/file_walk.h"
#include "base/buf.h"
#include "base/error.h"

void file_record_text(struct buf *record, const char *name, const char *text);
/* All that is known of an entry. */
void file_record_entry(struct buf *record, const struct file_entry *entry);
/* Its name, path and type only. */
void file_record_path(struct buf *record, const char *path, mode_t mode);
/* Sends when enough wait. Both return 0 or -1. */
int file_record_add(struct buf *record, struct error *err);
int file_record_flush(struct error *err);
