/* Shared by the files of freeze.h only. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "engine/vm/freeze.h"
#include "engine/vm/frozen.h"

/* Memory is read in pieces of this size. */
#define FREEZE_PIECE (256 * FROZEN_PAGE)

struct freezing {
    pid_t process;
    const struct freeze_files *files;
    uint64_t memory_inode;
    char memory_name[4096];
    pid_t threads[FROZEN_THREADS_MAX]; /* that are held */
    size_t thread_count;
    struct frozen head;
    struct buf file_table, mappings, descriptors, thread_table, names;
    uint64_t contents; /* where the next pages go */
    uint64_t below;    /* where the mapping before ended */
    int to, mem, pagemap;
    uint8_t *piece;
};

/* A whole file of /proc, of the process. */
int freeze_read(const struct freezing *f, const char *name, struct buf *out, struct error *err);
/* Returns where it is among the names. */
uint64_t freeze_add_name(struct freezing *f, const char *name);

/* freeze_threads.c */
int freeze_hold(struct freezing *f, struct error *err);
void freeze_let_go(const struct freezing *f);
int freeze_threads(struct freezing *f, struct error *err);
/* freeze_memory.c */
int freeze_memory(struct freezing *f, struct error *err);
/* freeze_descriptors.c */
int freeze_descriptors(struct freezing *f, struct error *err);
