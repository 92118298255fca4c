#include "engine/jail/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

/* The first version with which files can still be moved from folder to folder. */
#define VERSION_MIN 2

/* Rules are about files, but whoever has any can change no mounts. Rights that no rule speaks of
 * cost nothing when files are opened. */
int landlock_shut_in(struct error *err)
{
    static const struct landlock_ruleset_attr rules = {
        .handled_access_fs =
            LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_REFER,
    };
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < VERSION_MIN)
        return 0;
    cleanup_fd int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct landlock_path_beneath_attr moves = {.allowed_access = LANDLOCK_ACCESS_FS_REFER,
                                               .parent_fd = root};
    if (set < 0 || root < 0 ||
        syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &moves, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, set, 0) < 0)
        return error_errno(err, errno, "Landlock refuses our rules");
    return 0;
}
