/*
 * By way of a loop device: file systems on the same device are one to the kernel, so jails find
 * the device that others have made. It vanishes with its last user. Where there are none (in a
 * container, say), newer kernels mount the file itself, and every jail has a copy in memory.
 */
#include "engine/jail/image_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/mounts.h"

#define IMAGE_FLAGS (LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR)
#define DISK_FLAGS LO_FLAGS_AUTOCLEAR
#define TRIES 16

static bool shows(int device, const struct stat *file, unsigned flags)
{
    struct loop_info64 info;
    return ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
           info.lo_inode == file->st_ino && info.lo_offset == 0 && info.lo_sizelimit == 0 &&
           (info.lo_flags & IMAGE_FLAGS) == flags;
}

/* While the returned descriptor is open the device stays what it is. */
static int find_device(const struct stat *file, unsigned flags, char **path)
{
    int found = -1;
    DIR *devices = opendir("/sys/block");
    const struct dirent *entry;
    while (devices && found < 0 && (entry = readdir(devices))) {
        cleanup_free char *in_use = xasprintf("/sys/block/%s/loop/backing_file", entry->d_name);
        if (strncmp(entry->d_name, "loop", 4) != 0 || !file_exists(in_use))
            continue;
        cleanup_free char *name = xasprintf("/dev/%s", entry->d_name);
        cleanup_fd int device = open(name, O_RDONLY | O_CLOEXEC);
        if (device >= 0 && shows(device, file, flags)) {
            found = steal_fd(&device);
            *path = steal_pointer(&name);
        }
    }
    if (devices)
        closedir(devices);
    return found;
}

/* Others may take the free device before us. */
static int make_device(int file, unsigned flags, char **path)
{
    int access = flags & LO_FLAGS_READ_ONLY ? O_RDONLY : O_RDWR;
    cleanup_fd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int i = 0; control >= 0 && i < TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return -1;
        cleanup_free char *name = xasprintf("/dev/loop%d", number);
        cleanup_fd int device = open(name, access | O_CLOEXEC);
        const struct loop_config config = {.fd = (unsigned)file, .info.lo_flags = flags};
        if (device >= 0 && ioctl(device, LOOP_CONFIGURE, &config) == 0) {
            *path = steal_pointer(&name);
            return steal_fd(&device);
        }
        if (errno != EBUSY)
            return -1;
    }
    return -1;
}

int image_mount(const char *path, struct error *err)
{
    struct stat status;
    cleanup_free char *device_path = NULL;
    cleanup_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return error_errno(err, errno, "cannot open image %s", path);
    cleanup_fd int found = find_device(&status, IMAGE_FLAGS, &device_path);
    cleanup_fd int made = found < 0 ? make_device(file, IMAGE_FLAGS, &device_path) : -1;
    const struct mount_option options[] = {
        {"source", device_path ? device_path : path}, {"ro", NULL}, {0}};
    int tree =
        mount_make("erofs", options, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    return tree >= 0 ? tree : error_wrap(err, "cannot mount image %s", path);
}

int disk_mount(const char *path, struct error *err)
{
    struct stat status;
    cleanup_free char *device_path = NULL;
    cleanup_fd int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return error_errno(err, errno, "cannot open disk %s", path);
    /* The kernel may not be done yet with the last jail that had it. */
    cleanup_fd int found = find_device(&status, DISK_FLAGS, &device_path);
    cleanup_fd int made = found < 0 ? make_device(file, DISK_FLAGS, &device_path) : -1;
    if (!device_path)
        return error_errno(err, errno, "there is no loop device for the disk %s", path);
    const struct mount_option options[] = {{"source", device_path}, {"noinit_itable", NULL}, {0}};
    int tree =
        mount_make("ext4", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME, err);
    return tree >= 0 ? tree : error_wrap(err, "cannot mount disk %s", path);
}
