#include "agent/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

/* From <linux/random.h>, which musl does not bring. */
#define RNDADDENTROPY_REQUEST 0x40085203
#define RNDRESEEDCRNG_REQUEST 0x5207
#define ENTROPY_MAX 256

#define VOLUME_TAG "msb-volumes"
#define VOLUME_FOLDER "/run/msb/volumes"
#define VOLUME_OPTIONS "trans=virtio,version=9p2000.L,msize=512000,cache=none"
#define HOSTS_MAX (1024u * 1024)

static bool ours;

bool machine_is_ours(void)
{
    return ours;
}

void machine_set_ours(void)
{
    ours = true;
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
    cleanup_fd int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
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

/* An image may have put anything at this path: a link is replaced, not followed. */
static int write_file(const char *path, const char *text, struct error *err)
{
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
        unlink(path);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || file_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, errno, "cannot write %s", path);
    return 0;
}

/* Keeps all other lines; ours carries a mark, so that a second name replaces the first. */
static int write_hosts(const char *name, struct error *err)
{
    static const char mark[] = " # sandbox";
    cleanup_buf struct buf old = {0};
    cleanup_buf struct buf hosts = {0};
    struct stat status;
    if (lstat("/etc/hosts", &status) == 0 && S_ISREG(status.st_mode)) {
        struct error ignored;
        file_read("/etc/hosts", HOSTS_MAX, &old, &ignored);
    }
    buf_text(&old);
    char *rest = (char *)buf_data(&old);
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (line[0] && !strstr(line, mark))
            buf_printf(&hosts, "%s\n", line);
    }
    if (!strstr(buf_text(&hosts), "localhost"))
        buf_append_text(&hosts, "127.0.0.1 localhost\n::1 localhost\n");
    buf_printf(&hosts, "127.0.1.1 %s%s\n", name, mark);
    return write_file("/etc/hosts", buf_text(&hosts), err);
}

/* The id shows only what its bytes are mixed into, not the entropy the kernel was given. */
static void format_machine_id(const uint8_t *entropy, char text[34])
{
    uint64_t hash[2] = {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL};
    for (int i = 0; i < 32; i++) {
        hash[0] = (hash[0] ^ entropy[i]) * 0x100000001b3ULL;
        hash[1] = (hash[1] ^ entropy[31 - i]) * 0x100000001b3ULL;
    }
    snprintf(text, 34, "%016llx%016llx\n", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}

int machine_set_identity(const char *name, const uint8_t *entropy, struct error *err)
{
    char id[34];
    format_machine_id(entropy, id);
    int result = mkdir("/etc", 0755) < 0 && errno != EEXIST ? -1 : 0;
    if (result < 0)
        return error_errno(err, errno, "cannot create /etc");
    result = write_file("/etc/machine-id", id, err);
    if (result < 0 || !name)
        return result;
    if (sethostname(name, strlen(name)) < 0)
        return error_errno(err, errno, "cannot set the host name %.64s", name);
    cleanup_free char *line = xasprintf("%s\n", name);
    result = write_file("/etc/hostname", line, err);
    return result < 0 ? result : write_hosts(name, err);
}

static int mount_share(struct error *err)
{
    static bool mounted;
    if (mounted)
        return 0;
    int result = folder_make(VOLUME_FOLDER, 0700, err);
    if (result < 0)
        return result;
    if (mount(VOLUME_TAG, VOLUME_FOLDER, "9p", MS_NODEV | MS_NOSUID, VOLUME_OPTIONS) < 0)
        return error_errno(err, errno, "cannot mount the folders of the host");
    mounted = true;
    return 0;
}

int machine_mount_volume(const char *spec, struct error *err)
{
    size_t digits = strspn(spec, "0123456789");
    bool read_only = strncmp(spec + digits, ":ro:/", 5) == 0;
    if (digits == 0 || digits > 9 || (!read_only && strncmp(spec + digits, ":rw:/", 5) != 0))
        return error_set(err, ERROR_INVALID, "malformed volume %.200s", spec);
    const char *path = spec + digits + 4;
    cleanup_free char *source = xasprintf("%s/%.*s", VOLUME_FOLDER, (int)digits, spec);
    int result = mount_share(err);
    if (result < 0 || (result = folder_make(path, 0755, err)) < 0)
        return result;
    if (mount(source, path, NULL, MS_BIND, NULL) < 0)
        return error_errno(err, errno, "cannot mount a folder of the host at %.200s", path);
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
