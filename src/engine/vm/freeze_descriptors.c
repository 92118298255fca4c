#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/vm/freeze_internal.h"

static uint64_t read_number(const char *text, const char *label, int base)
{
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, base) : 0;
}

static bool is_same(const struct stat *status, int fd)
{
    struct stat ours;
    return fd >= 0 && fstat(fd, &ours) == 0 && ours.st_ino == status->st_ino &&
           ours.st_dev == status->st_dev;
}

/* One of those that it was given, or 0. */
static int find_given(const struct freezing *f, int number, const char *path)
{
    struct stat status;
    if (number == FROZEN_QMP || number == FROZEN_AGENT)
        return number;
    if (stat(path, &status) < 0)
        return 0;
    if (S_ISFIFO(status.st_mode))
        return is_same(&status, f->files->console) ? FROZEN_CONSOLE : 0;
    if (!S_ISREG(status.st_mode))
        return 0;
    return is_same(&status, f->files->image)     ? FROZEN_IMAGE
           : is_same(&status, f->files->disk)    ? FROZEN_DISK
           : is_same(&status, f->files->overlay) ? FROZEN_OVERLAY
           : is_same(&status, f->files->kept)    ? FROZEN_KEPT
           : is_same(&status, f->files->memory)  ? FROZEN_MEMORY
                                                 : 0;
}

static int describe_descriptor(struct freezing *f, int number, struct error *err)
{
    char target[256] = "", name[32];
    cleanup_free char *path = xasprintf("/proc/%d/fd/%d", (int)f->process, number);
    cleanup_buf struct buf about = {0};
    snprintf(name, sizeof name, "fdinfo/%d", number);
    if (readlink(path, target, sizeof target - 1) < 0)
        return error_errno(err, errno, "cannot look at a descriptor");
    if (freeze_read(f, name, &about, err) < 0)
        return -1;
    const char *text = buf_text(&about);
    struct frozen_descriptor one = {.number = number, .flags = read_number(text, "flags:\t", 8)};
    struct stat status;
    int given = find_given(f, number, path);
    if (given) {
        one.kind = FROZEN_IS_GIVEN;
        one.value = (uint64_t)given;
    } else if (strcmp(target, "anon_inode:[eventfd]") == 0) {
        one.kind = FROZEN_IS_EVENT;
        one.value = read_number(text, "eventfd-count:", 16);
    } else if (strcmp(target, "anon_inode:[eventpoll]") == 0 && !strstr(text, "tfd:")) {
        one.kind = FROZEN_IS_EPOLL;
    } else if (strcmp(target, "anon_inode:[signalfd]") == 0) {
        one.kind = FROZEN_IS_SIGNAL;
        one.value = read_number(text, "sigmask:", 16);
    } else if (target[0] == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        one.kind = FROZEN_IS_FOLDER;
        one.value = freeze_add_name(f, target);
    } else {
        return error_set(err, ERROR_MISSING, "descriptor %d is %s", number, target);
    }
    buf_append(&f->descriptors, &one, sizeof one);
    f->head.descriptor_count++;
    return 0;
}

int freeze_descriptors(struct freezing *f, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/fd", (int)f->process);
    DIR *all = opendir(path);
    struct dirent *entry;
    int result = all ? 0 : error_errno(err, errno, "cannot open %s", path);
    while (result == 0 && (entry = readdir(all))) {
        int number = (int)strtol(entry->d_name, NULL, 10);
        if (number > STDERR_FILENO)
            result = describe_descriptor(f, number, err);
    }
    if (all)
        closedir(all);
    return result;
}
