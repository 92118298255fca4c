#include "sandbox/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/cgroup.h"
#include "sandbox/named_folders.h"

#define BACKLOG 128
#define STATE "sandboxes"
#define AHEAD ".ahead"

static char *folder_of(const char *namespace, const char *name)
{
    return home_path(STATE "/%s/%s", namespace, name);
}

/* Held while folders come and go, so that a new one is not swept before it is locked. */
static int gate(struct error *err)
{
    cleanup_free char *parent = home_path(STATE);
    cleanup_free char *path = xasprintf("%s/.lock", parent);
    if (!file_exists(path) && folder_make(parent, 0700, err) < 0)
        return error_hint(err, "set MSB_HOME to a folder you may write to");
    return file_lock(path, true, err);
}

static int take_lock(const char *folder, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/lock", folder);
    return file_lock(path, false, err);
}

/* Makes the folder unless it is there. ERROR_EXISTS when a keeper has it. */
static int claim(const char *path, const char *namespace, const char *name, struct error *err)
{
    int result = folder_make(path, 0700, err);
    if (result < 0)
        return result;
    int lock = take_lock(path, err);
    if (lock < 0 && err->code == ERROR_BUSY) {
        error_set(err, ERROR_EXISTS, "a sandbox named %s is running already", name);
        bool is_default = strcmp(namespace, SANDBOX_DEFAULT_NAMESPACE) == 0;
        return error_hint(err, "choose another name, or end it with: msb stop %s%s%s", name,
                          is_default ? "" : " --namespace ", is_default ? "" : namespace);
    }
    return lock;
}

int state_create(const char *namespace, const char *name, char **folder, struct error *err)
{
    cleanup_fd int open_gate = gate(err);
    if (open_gate < 0)
        return open_gate;
    cleanup_free char *path = folder_of(namespace, name);
    int lock = claim(path, namespace, name, err);
    if (lock < 0)
        return lock;
    /* What a dead keeper left. The lock file stays: it is ours now. */
    static const char *const leftovers[] = {
        "config.json", "keeper.sock", "output.log", "output.log.1", "keeper.log", "disk", "kept"};
    for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) {
        cleanup_free char *file = xasprintf("%s/%s", path, leftovers[i]);
        unlink(file);
    }
    *folder = steal_pointer(&path);
    return lock;
}

int state_create_ahead(char **folder, struct error *err)
{
    char name[16];
    snprintf(name, sizeof name, "%d", (int)getpid());
    return state_create(AHEAD, name, folder, err);
}

/* That of the namespace, which comes with its first sandbox and goes with its last. */
static char *parent_of(const char *folder)
{
    return xstrndup(folder, (size_t)(strrchr(folder, '/') - folder));
}

static void remove_parent(const char *folder)
{
    cleanup_free char *parent = parent_of(folder);
    rmdir(parent);
}

/* A folder that is there gives way when its keeper is dead. */
static int move_folder(const char *from, const char *to, const char *namespace, const char *name,
                       struct error *err)
{
    cleanup_free char *parent = parent_of(to);
    if (rename(from, to) == 0 || (folder_make(parent, 0700, err) == 0 && rename(from, to) == 0))
        return 0;
    cleanup_fd int lock = claim(to, namespace, name, err);
    if (lock < 0)
        return lock;
    int result = folder_remove(to, err);
    if (result == 0 && rename(from, to) < 0)
        result = error_errno(err, errno, "cannot name the sandbox %s", name);
    return result;
}

int state_take_name(const char *namespace, const char *name, char **folder, struct error *err)
{
    cleanup_fd int open_gate = gate(err);
    if (open_gate < 0)
        return open_gate;
    cleanup_free char *path = folder_of(namespace, name);
    int result = move_folder(*folder, path, namespace, name, err);
    if (result < 0)
        return result;
    free(*folder);
    *folder = steal_pointer(&path);
    return 0;
}

void state_remove(const char *folder, int lock)
{
    struct error ignored;
    cleanup_fd int open_gate = gate(&ignored);
    cleanup_free char *ahead = home_path(STATE "/" AHEAD);
    folder_remove(folder, &ignored);
    fd_close(lock);
    remove_parent(folder);
    rmdir(ahead);
}

static void sweep_one(const char *namespace, const char *name, const char *folder, void *context)
{
    (void)namespace, (void)name, (void)context;
    struct error ignored;
    cleanup_fd int lock = take_lock(folder, &ignored);
    if (lock < 0)
        return;
    folder_remove(folder, &ignored);
    remove_parent(folder);
}

void state_sweep(void)
{
    struct error ignored;
    cleanup_fd int open_gate = gate(&ignored);
    if (open_gate >= 0) {
        named_folders_visit(STATE, NULL, sweep_one, NULL);
        named_folders_visit(STATE, AHEAD, sweep_one, NULL);
    }
    cgroup_sweep();
}

struct listing {
    struct state_entry *entries;
    size_t count;
};

static void list_one(const char *namespace, const char *name, const char *folder, void *context)
{
    struct listing *listing = context;
    struct error err;
    cleanup_fd int lock = take_lock(folder, &err);
    if (lock >= 0 || err.code != ERROR_BUSY)
        return;
    listing->entries = xrealloc(listing->entries, (listing->count + 1) * sizeof *listing->entries);
    listing->entries[listing->count++] =
        (struct state_entry){.namespace = xstrdup(namespace), .name = xstrdup(name)};
}

static int compare(const void *left, const void *right)
{
    const struct state_entry *a = left, *b = right;
    int order = strcmp(a->namespace, b->namespace);
    return order ? order : strcmp(a->name, b->name);
}

int state_list(const char *namespace, struct state_entry **entries, size_t *count,
               struct error *err)
{
    /* Looking takes locks for a moment, which must not be taken for a keeper's. */
    cleanup_fd int open_gate = gate(err);
    if (open_gate < 0)
        return open_gate;
    struct listing listing = {0};
    named_folders_visit(STATE, namespace, list_one, &listing);
    if (listing.count)
        qsort(listing.entries, listing.count, sizeof *listing.entries, compare);
    *entries = listing.entries;
    *count = listing.count;
    return 0;
}

void state_list_free(struct state_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(entries[i].namespace);
        free(entries[i].name);
    }
    free(entries);
}

static bool has_keeper(const char *folder)
{
    struct error err;
    cleanup_fd int open_gate = gate(&err);
    if (open_gate < 0 || !file_exists(folder))
        return false;
    cleanup_fd int lock = take_lock(folder, &err);
    return lock < 0 && err.code == ERROR_BUSY;
}

json_t *state_read_settings(const char *namespace, const char *name)
{
    cleanup_free char *folder = folder_of(namespace, name);
    cleanup_free char *path = xasprintf("%s/config.json", folder);
    return json_load_file(path, 0, NULL);
}

json_t *state_settings(const char *namespace, const char *name)
{
    cleanup_free char *folder = folder_of(namespace, name);
    if (!has_keeper(folder))
        return NULL;
    json_t *json = state_read_settings(namespace, name);
    /* It has just begun. */
    return json ? json : json_object();
}

/* Socket addresses are short and home folders may be deep: the path goes by way of a descriptor. */
static void address_in(int folder_fd, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/keeper.sock",
             folder_fd);
}

int state_connect(const char *namespace, const char *name, struct error *err)
{
    cleanup_free char *folder = folder_of(namespace, name);
    cleanup_fd int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd =
        folder_fd < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    address_in(folder_fd, &address);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        fcntl(fd, F_SETFL, 0) == 0)
        return steal_fd(&fd);
    /* A keeper that takes no connections for a while has a full queue of them. */
    if (errno == EAGAIN) {
        error_set(err, ERROR_TIMEOUT, "the keeper of sandbox %s does not answer", name);
        return error_hint(err, "try again in a moment");
    }
    if (errno != ENOENT && errno != ECONNREFUSED && errno != EBADF)
        return error_errno(err, errno, "cannot reach sandbox %s", name);
    error_set(err, ERROR_NOT_FOUND, "there is no running sandbox named %s", name);
    return error_hint(err, "msb ps lists those that run; --namespace NS for another namespace");
}

int state_listen(const char *folder, struct error *err)
{
    cleanup_fd int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;
    address_in(folder_fd, &address);
    mode_t before = umask(0177);
    int bound =
        folder_fd < 0 || fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(before);
    if (bound < 0 || listen(fd, BACKLOG) < 0)
        return error_errno(err, errno, "cannot listen in %s", folder);
    return steal_fd(&fd);
}
