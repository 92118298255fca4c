#include "agent/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* From <linux/random.h>, which musl does not bring. */
#define RNDADDENTROPY_REQUEST 0x40085203
#define RNDRESEEDCRNG_REQUEST 0x5207
#define ENTROPY_MAX 256

#define VOLUME_TAG "msb-volumes"
#define VOLUME_FOLDER "/run/msb/volumes"
#define VOLUME_OPTIONS "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"

static bool ours;
static bool jail;

bool machine_is_ours(void)
{
    return ours;
}

void machine_set_ours(void)
{
    ours = true;
}

bool machine_is_jail(void)
{
    return jail;
}

void machine_set_jail(void)
{
    jail = true;
}

void machine_add_entropy(const uint8_t *bytes, size_t length)
{
    struct {
        int bits;
        int size;
        uint8_t bytes[ENTROPY_MAX];
    } pool;
    length = length < ENTROPY_MAX ? length : ENTROPY_MAX;
    pool.bits = (int)length * 8;
    pool.size = (int)length;
    memcpy(pool.bytes, bytes, length);
    static int fd = -1; /* kept open: this is on the path of every start */
    if (fd < 0)
        fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    ioctl(fd, RNDADDENTROPY_REQUEST, &pool);
    ioctl(fd, RNDRESEEDCRNG_REQUEST);
}

int machine_set_clock(uint64_t realtime_us, struct error *err)
{
    struct timespec now = {.tv_sec = (time_t)(realtime_us / 1000000),
                           .tv_nsec = (long)(realtime_us % 1000000) * 1000};
    if (clock_settime(CLOCK_REALTIME, &now) < 0)
        return error_errno(err, errno, "cannot set the clock");
    return 0;
}

static bool shares;    /* the host's folders are mounted */
static char **volumes; /* where they are bound to */

static int mount_share(struct error *err)
{
    if (shares)
        return 0;
    int result = folder_make(VOLUME_FOLDER, 0700, err);
    if (result < 0)
        return result;
    if (mount(VOLUME_TAG, VOLUME_FOLDER, "9p", MS_NODEV | MS_NOSUID, VOLUME_OPTIONS) < 0) {
        error_errno(err, errno, "cannot mount the folders of the host");
        return errno == EBUSY ? error_hint(err, "a program in the sandbox that was copied has a "
                                                "file of a shared folder open, or works in one")
                              : -1;
    }
    shares = true;
    return 0;
}

void machine_unmount_volumes(void)
{
    for (char **at = volumes; at && *at; at++)
        umount2(*at, MNT_DETACH);
    strv_free(steal_pointer(&volumes));
    if (shares)
        umount2(VOLUME_FOLDER, MNT_DETACH);
    shares = false;
}

int machine_mount_volume(const char *spec, struct error *err)
{
    size_t digits = strspn(spec, "0123456789");
    bool read_only = strncmp(spec + digits, ":ro:/", 5) == 0;
    if (digits > 9 || (!read_only && strncmp(spec + digits, ":rw:/", 5) != 0))
        return error_set(err, ERROR_INVALID, "malformed volume %.200s", spec);
    const char *path = spec + digits + 4;
    cleanup_free char *source = xasprintf("%s/%.*s", VOLUME_FOLDER, (int)digits, spec);
    int result = mount_share(err);
    if (result < 0 || (result = folder_make(path, 0755, err)) < 0)
        return result;
    if (mount(source, path, NULL, MS_BIND, NULL) < 0)
        return error_errno(err, errno, "cannot mount a folder of the host at %.200s", path);
    strv_append(&volumes, xstrdup(path));
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_NODEV | MS_NOSUID | MS_RDONLY;
    if (read_only && mount(NULL, path, NULL, flags, NULL) < 0)
        return error_errno(err, errno, "cannot make %.200s read-only", path);
    return 0;
}

/* Where the machine has no power switch, a reset ends it just as well. */
_Noreturn void machine_power_off(void)
{
    sync();
    reboot(RB_POWER_OFF);
    reboot(RB_AUTOBOOT);
    _exit(1);
}
