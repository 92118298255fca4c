/* A walk through a folder and those in it: names in order, links not followed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

struct file_entry {
    int folder; /* descriptor of the folder that holds it */
    const char *name;
    const char *path; /* the path of the walk, a slash and the way from there */
    struct stat status;
};

enum file_step {
    FILE_STEP_ENTER, /* goes on, also into the entry if it is a folder */
    FILE_STEP_OVER,
};

struct file_walk {
    uint64_t depth; /* levels of folders to enter */
    uint64_t left;  /* entries that may still be visited */
    bool cut;       /* there were more */
    bool deeper;    /* there were folders below the last level */
    /* enum file_step, or -1 */
    int (*visit)(void *owner, const struct file_entry *entry, struct error *err);
    void *owner;
};

/* Takes the descriptor of the folder over. Folders that may not be entered are visited only. */
int file_walk(struct file_walk *walk, int fd, const char *path, struct error *err);
/* The way to a name in a folder; an empty folder is none. */
char *file_path_join(const char *folder, const char *name);
