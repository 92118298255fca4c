/* Shared by the files of file_work_watch only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/types.h>

#include "base/error.h"

#define WATCH_FOLDERS_MAX 8192
#define WATCH_BATCH 1024
/* Events that a watched folder ends with. */
#define WATCH_ENDS (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

enum watch_kind {
    WATCH_READY,
    WATCH_CREATE,
    WATCH_WRITE,
    WATCH_REMOVE,
    WATCH_RENAME,
    WATCH_CHMOD,
    WATCH_OVERFLOW,
};

struct watch_change {
    enum watch_kind kind;
    char *name;
    char *target; /* of WATCH_RENAME, else NULL */
};

struct watch_folder {
    int wd;
    char *name; /* below the root; that of the root is empty */
};

struct watch {
    char *root;
    const char *only; /* the one file that is watched, else NULL */
    bool recursive;
    dev_t device;
    int fd;
    struct watch_folder *folders; /* by wd: new ones have the highest */
    size_t folder_count;
    struct watch_change batch[WATCH_BATCH];
    size_t batch_count;
    struct {
        uint32_t cookie;
        char *name; /* NULL: none is under way */
        bool folder;
    } move;
    void *listed; /* names that lists have found, a tree of <search.h> */
    size_t listed_count;
    size_t listed_until; /* bytes of events that may still repeat them */
    size_t unread;       /* bytes of events at hand */
};

/* file_watch_batch.c: what is told to the client. */
/* Adds a change to the batch, unless that was the last thing said of this name. */
int watch_tell(struct watch *watch, enum watch_kind kind, const char *name, const char *target,
               struct error *err);
int watch_send(struct watch *watch, struct error *err);

/* file_watch_folders.c: what is watched. Names are below the root. */
/* Begins, or begins again. */
int watch_enter_root(struct watch *watch, struct error *err);
/* A folder has appeared: what is in it is told, and the folders are watched if that is wanted. */
int watch_enter_new(struct watch *watch, const char *name, struct error *err);
struct watch_folder *watch_find_folder(const struct watch *watch, int wd);
void watch_forget_folder(struct watch *watch, struct watch_folder *folder);
/* The folder and those in it are not watched any longer. */
void watch_leave(struct watch *watch, const char *name);
/* False when none of that name was watched. */
bool watch_rename(struct watch *watch, const char *from, const char *to);
/* Whether it is the folder or in it. */
bool watch_lies_in(const char *name, const char *folder);
/* Whether a list has found it already; it is forgotten then. */
bool watch_take_listed(struct watch *watch, const char *name);
void watch_forget_listed(struct watch *watch);
