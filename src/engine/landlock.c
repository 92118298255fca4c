#include "engine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

/* The first version with which files can still be moved from folder to folder. */
#define VERSION_REFER 2

/* What the headers of older systems do not name yet. */
#define VERSION_TRUNCATE 3
#define ACCESS_TRUNCATE (1ull << 14)
#define VERSION_TCP 4
#define ACCESS_TCP (1ull << 0 | 1ull << 1) /* bind, connect */
#define VERSION_DEVICES 5
#define ACCESS_IOCTL_DEV (1ull << 15)
#define VERSION_SCOPES 6
#define SCOPES (1ull << 0 | 1ull << 1) /* abstract unix sockets, signals */

/* The kernel takes a longer structure than it knows as long as the rest is zero. */
struct ruleset {
    uint64_t files, tcp, scopes;
};

static long kernel_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static int make_ruleset(const struct ruleset *rules)
{
    return (int)syscall(SYS_landlock_create_ruleset, rules, sizeof *rules, 0);
}

static bool add_rule(int set, int place, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = place};
    return syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

static int obey(int set, struct error *err)
{
    return syscall(SYS_landlock_restrict_self, set, 0) == 0
               ? 0
               : error_errno(err, errno, "Landlock refuses our rules");
}

bool landlock_available(void)
{
    return kernel_version() >= 1;
}

/* Rules are about files, but whoever has any can change no mounts. Rights that no rule speaks of
 * cost nothing when files are opened. */
int landlock_shut_in(struct error *err)
{
    static const struct ruleset rules = {
        .files =
            LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REFER,
    };
    if (kernel_version() < VERSION_REFER)
        return 0;
    cleanup_fd int set = make_ruleset(&rules);
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (set < 0 || root < 0 || !add_rule(set, root, LANDLOCK_ACCESS_FS_REFER))
        return error_errno(err, errno, "Landlock refuses our rules");
    return obey(set, err);
}

#define ACCESS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define ACCESS_FILE_ONLY                                                                           \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     ACCESS_TRUNCATE)
/* Of the first version. */
#define ACCESS_CHANGE                                                                              \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |  \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Everything that this kernel knows how to refuse. */
static struct ruleset refuse_all(long version)
{
    struct ruleset rules = {.files = ACCESS_READ | LANDLOCK_ACCESS_FS_EXECUTE | ACCESS_CHANGE |
                                     ACCESS_DEVICES};
    if (version >= VERSION_REFER)
        rules.files |= LANDLOCK_ACCESS_FS_REFER;
    if (version >= VERSION_TRUNCATE)
        rules.files |= ACCESS_TRUNCATE;
    if (version >= VERSION_DEVICES)
        rules.files |= ACCESS_IOCTL_DEV;
    if (version >= VERSION_TCP)
        rules.tcp = ACCESS_TCP;
    if (version >= VERSION_SCOPES)
        rules.scopes = SCOPES;
    return rules;
}

static uint64_t access_of(const struct landlock_place *place, uint64_t known)
{
    struct stat status;
    uint64_t access = ACCESS_READ;
    if (place->right == LANDLOCK_EXECUTE)
        access |= LANDLOCK_ACCESS_FS_EXECUTE;
    if (place->right == LANDLOCK_WRITE)
        access |= ACCESS_CHANGE | LANDLOCK_ACCESS_FS_REFER | ACCESS_TRUNCATE;
    if (fstat(place->fd, &status) == 0 && !S_ISDIR(status.st_mode))
        access &= ACCESS_FILE_ONLY;
    return access & known;
}

int landlock_leave_only(const struct landlock_place *places, size_t count, struct error *err)
{
    long version = kernel_version();
    if (version < 1)
        return error_set(err, ERROR_MISSING, "the kernel has no Landlock");
    const struct ruleset rules = refuse_all(version);
    cleanup_fd int set = make_ruleset(&rules);
    if (set < 0)
        return error_errno(err, errno, "Landlock refuses our rules");
    for (size_t i = 0; i < count; i++) {
        if (!add_rule(set, places[i].fd, access_of(&places[i], rules.files)))
            return error_errno(err, errno, "Landlock refuses a rule");
    }
    return obey(set, err);
}
