#include "image/oci/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define DEPTH_MAX 400
#define PATH_LENGTH_MAX 3500 /* the folder that holds the tree comes in front */
#define NAME_LENGTH_MAX 254  /* mkfs.erofs fails at longer ones */

void tree_open(struct tree *tree, int root)
{
    *tree = (struct tree){.root = root, .parent = -1};
}

static void forget_parent(struct tree *tree)
{
    fd_close(tree->parent);
    tree->parent = -1;
    free(steal_pointer(&tree->parent_path));
}

void tree_forget_marks(struct tree *tree)
{
    marks_clear(&tree->made);
}

void tree_close(struct tree *tree)
{
    forget_parent(tree);
    tree_forget_marks(tree);
}

/* ---- paths --------------------------------------------------------------------------------- */

int tree_look(const struct tree *tree, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, tree->root, path, &how, sizeof how);
}

/* In place: no empty parts, no "."; NULL when there is "..", or when it is too long. */
static char *clean_path(char *path, struct error *err)
{
    char *out = path, *rest = path;
    size_t depth = 0;
    if (strlen(path) > PATH_LENGTH_MAX) {
        error_set(err, ERROR_INVALID, "it has a path that is longer than %d bytes",
                  PATH_LENGTH_MAX);
        return NULL;
    }
    for (char *part; (part = strsep(&rest, "/"));) {
        size_t length = strlen(part);
        if (length == 0 || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0 || length > NAME_LENGTH_MAX || ++depth > DEPTH_MAX) {
            error_set(err, ERROR_INVALID, "it has a path that leads out of the image or is absurd");
            return NULL;
        }
        if (out != path)
            *out++ = '/';
        memmove(out, part, length);
        out += length;
    }
    *out = '\0';
    return path;
}

static int make_and_open(const struct tree *tree, int above, const char *path, const char *name)
{
    int fd = tree_look(tree, path, O_RDONLY | O_DIRECTORY);
    if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
        return fd;
    /* A file or a link that leads nowhere gives way. */
    unlinkat(above, name, 0);
    if (mkdirat(above, name, 0755) < 0)
        return -1;
    return tree_look(tree, path, O_RDONLY | O_DIRECTORY);
}

/* Like mkdir -p. */
static int open_folder(const struct tree *tree, char *path, struct error *err)
{
    int fd = tree_look(tree, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    if (fd >= 0)
        return fd;
    cleanup_fd int above = tree_look(tree, ".", O_RDONLY | O_DIRECTORY);
    for (char *name = path; above >= 0 && *name;) {
        char *end = name + strcspn(name, "/");
        char rest = *end;
        *end = '\0';
        int next = make_and_open(tree, above, path, name);
        int reason = errno;
        *end = rest;
        fd_close(above);
        above = next;
        errno = reason;
        name = rest ? end + 1 : end;
    }
    return above < 0 ? error_errno(err, errno, "cannot make folder %.300s", path)
                     : steal_fd(&above);
}

char *tree_enter(struct tree *tree, char *path, struct error *err)
{
    if (!clean_path(path, err))
        return NULL;
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    char empty[1] = "";
    char *folder = slash ? path : empty;
    if (tree->parent_path && strcmp(tree->parent_path, folder) == 0)
        return name;
    forget_parent(tree);
    struct stat status;
    tree->parent = open_folder(tree, folder, err);
    if (tree->parent < 0)
        return NULL;
    if (fstat(tree->parent, &status) < 0) {
        error_errno(err, errno, "cannot look at %.300s", folder);
        return NULL;
    }
    tree->parent_inode = status.st_ino;
    tree->parent_path = xstrdup(folder);
    return name;
}

void tree_mark(struct tree *tree, const char *name)
{
    marks_add(&tree->made, tree->parent_inode, name);
}

/* ---- removing ------------------------------------------------------------------------------ */

struct removal {
    const struct marks *kept; /* NULL: nothing is */
    int depth;
};

static int remove_name(struct removal *removal, int folder, ino_t inode, const char *name,
                       struct error *err);

static int remove_contents(struct removal *removal, int folder, struct error *err)
{
    struct stat status;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries || fstat(folder, &status) < 0 || ++removal->depth > DEPTH_MAX * 2) {
        if (entries)
            closedir(entries);
        else
            fd_close(copy);
        return error_set(err, ERROR_LIMIT, "its folders are nested too deep");
    }
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(entries))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = remove_name(removal, folder, status.st_ino, entry->d_name, err);
    }
    closedir(entries);
    removal->depth--;
    return result;
}

static int remove_name(struct removal *removal, int folder, ino_t inode, const char *name,
                       struct error *err)
{
    bool keep = removal->kept && marks_have(removal->kept, inode, name);
    if (!keep && unlinkat(folder, name, 0) == 0)
        return 0;
    if (!keep && errno == ENOENT)
        return 0;
    cleanup_fd int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0)
        return keep ? 0 : error_errno(err, errno, "cannot remove %.300s", name);
    int result = remove_contents(removal, below, err);
    if (result < 0 || keep || unlinkat(folder, name, AT_REMOVEDIR) == 0)
        return result;
    /* Something in it is the layer's own. */
    return removal->kept && errno == ENOTEMPTY
               ? 0
               : error_errno(err, errno, "cannot remove %.300s", name);
}

int tree_remove(struct tree *tree, const char *name, struct error *err)
{
    struct stat status;
    if (fstatat(tree->parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    /* It may have been a link on the way to this folder. */
    free(steal_pointer(&tree->parent_path));
    return remove_name(&(struct removal){0}, tree->parent, tree->parent_inode, name, err);
}

int tree_hide(struct tree *tree, const char *name, struct error *err)
{
    struct removal removal = {.kept = &tree->made};
    free(steal_pointer(&tree->parent_path));
    return remove_name(&removal, tree->parent, tree->parent_inode, name, err);
}

int tree_hide_all(struct tree *tree, struct error *err)
{
    struct removal removal = {.kept = &tree->made};
    free(steal_pointer(&tree->parent_path));
    return remove_contents(&removal, tree->parent, err);
}
