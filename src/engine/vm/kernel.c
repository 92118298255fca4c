#include "engine/vm/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/progress.h"
#include "engine/vm/kernel_modules.h"
#include "engine/vm/kernel_package.h"
#include "engine/vm/kernel_unwrap.h"

#define CUSTOM_PREFIX "custom-"
#define VERDICT "verdict"
#define VERDICT_MAX 4096
/* The package, its unpacked modules and the result. */
#define SPACE_NEEDED ((uint64_t)700 << 20)

void kernel_release(struct kernel *kernel)
{
    free(kernel->version);
    free(kernel->vmlinux);
    free(kernel->modules);
    *kernel = (struct kernel){0};
}

/* The modules folder beside the kernel file; NULL when there is none. */
static char *find_modules(const char *vmlinux)
{
    cleanup_free char *copy = xstrdup(vmlinux);
    cleanup_free char *folder = xasprintf("%s/modules", dirname(copy));
    cleanup_free char *order = xasprintf("%s/order", folder);
    return file_exists(order) ? steal_pointer(&folder) : NULL;
}

enum standing { UNTRIED, PASSED, FAILED };

/* `reason`, if not NULL, gets how it failed. */
static enum standing standing_of(const char *version, struct buf *reason)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = home_path("kernels/%s/" VERDICT, version);
    if (file_read(path, VERDICT_MAX, &text, &ignored) < 0)
        return UNTRIED;
    if (reason)
        buf_append(reason, buf_data(&text), buf_length(&text));
    return buf_length(&text) ? FAILED : PASSED;
}

/* Entries of the store are whole: they were renamed into place. */
static bool load_stored(const char *version, struct kernel *kernel)
{
    cleanup_free char *vmlinux = home_path("kernels/%s/vmlinux", version);
    if (!file_exists(vmlinux))
        return false;
    kernel->version = xstrdup(version);
    kernel->is_tried = standing_of(version, NULL) == PASSED;
    kernel->modules = find_modules(vmlinux);
    kernel->vmlinux = steal_pointer(&vmlinux);
    return true;
}

static bool is_debian_entry(const char *name)
{
    cleanup_free char *vmlinux = home_path("kernels/%s/vmlinux", name);
    return name[0] != '.' && strncmp(name, CUSTOM_PREFIX, sizeof CUSTOM_PREFIX - 1) != 0 &&
           file_exists(vmlinux);
}

/* The versions of Debian's in the store, newest first. */
static char **list_stored(void)
{
    cleanup_free char *path = home_path("kernels");
    char **versions = NULL;
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (is_debian_entry(entry->d_name))
            strv_append(&versions, xstrdup(entry->d_name));
    }
    if (folder)
        closedir(folder);
    kernel_package_sort(versions);
    return versions;
}

/* The newest in the store that has passed its trial or, with `may_try`, may still do so. */
static int find_debian(bool may_try, struct kernel *kernel, struct error *err)
{
    cleanup_strv char **versions = list_stored();
    for (size_t i = 0; versions && versions[i]; i++) {
        enum standing standing = standing_of(versions[i], NULL);
        if ((standing == PASSED || (may_try && standing == UNTRIED)) &&
            load_stored(versions[i], kernel))
            return 0;
    }
    error_set(err, ERROR_NOT_FOUND, "no kernel has been fetched yet");
    return error_hint(err, "run `msb prepare`, or choose one with --kernel FILE");
}

int kernel_judge(const struct kernel *kernel, const char *failure, struct error *err)
{
    cleanup_free char *path = home_path("kernels/%s/" VERDICT, kernel->version);
    return file_write_atomic(path, failure, failure ? strlen(failure) : 0, 0644, err);
}

char **kernel_failures(void)
{
    char **failures = NULL;
    cleanup_strv char **versions = list_stored();
    for (size_t i = 0; versions && versions[i]; i++) {
        cleanup_buf struct buf reason = {0};
        if (standing_of(versions[i], &reason) == FAILED)
            strv_append(&failures, xasprintf("%s: %s", versions[i], buf_text(&reason)));
    }
    return failures;
}

/* Changes when the file does, without reading it. */
static char *custom_version(const char *path, const struct stat *status)
{
    cleanup_free char *identity =
        xasprintf("%s\n%lld\n%lld.%09ld", path, (long long)status->st_size,
                  (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[13];
    EVP_Digest(identity, strlen(identity), digest, NULL, EVP_sha256(), NULL);
    for (int i = 0; i < 6; i++)
        snprintf(hex + i * 2, 3, "%02x", digest[i]);
    return xasprintf(CUSTOM_PREFIX "%s", hex);
}

/* The chosen file's absolute path and the version it goes by. */
static int identify_custom(const char *chosen, char **path, char **version, struct error *err)
{
    struct stat status;
    cleanup_free char *real = realpath(chosen, NULL);
    if (!real || stat(real, &status) < 0)
        return error_errno(err, errno, "cannot use the kernel %s", chosen);
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERROR_INVALID, "the kernel %s is not a file", chosen);
    *version = custom_version(real, &status);
    *path = steal_pointer(&real);
    return 0;
}

static int find_custom(const char *chosen, struct kernel *kernel, struct error *err)
{
    cleanup_free char *path = NULL;
    cleanup_free char *version = NULL;
    int result = identify_custom(chosen, &path, &version, err);
    if (result < 0)
        return result;
    if (kernel_is_bootable(path)) {
        *kernel = (struct kernel){.version = steal_pointer(&version), .vmlinux = xstrdup(path)};
    } else if (!load_stored(version, kernel)) {
        error_set(err, ERROR_NOT_FOUND, "the kernel %s has not been unwrapped yet", chosen);
        return error_hint(err, "run `msb prepare --kernel %s`", chosen);
    }
    free(kernel->modules);
    kernel->modules = find_modules(path);
    kernel->is_tried = true;
    return 0;
}

int kernel_find(const char *chosen, struct kernel *kernel, struct error *err)
{
    *kernel = (struct kernel){0};
    return chosen ? find_custom(chosen, kernel, err) : find_debian(false, kernel, err);
}

/* Moves the finished folder into the store; somebody who was faster is as good. */
static int publish(const char *made, const char *version, struct error *err)
{
    cleanup_free char *place = home_path("kernels/%s", version);
    if (rename(made, place) == 0 || errno == EEXIST || errno == ENOTEMPTY)
        return 0;
    return error_errno(err, errno, "cannot move the kernel to %s", place);
}

static int build_debian(const char *version, const char *workspace, const char *made,
                        struct error *err)
{
    cleanup_free char *contents = xasprintf("%s/package", workspace);
    cleanup_free char *vmlinuz = xasprintf("%s/vmlinuz", contents);
    cleanup_free char *vmlinux = xasprintf("%s/vmlinux", made);
    cleanup_free char *modules = xasprintf("%s/modules", made);
    int result = kernel_package_fetch(version, workspace, contents, err);
    if (result == 0)
        result = kernel_unwrap(vmlinuz, vmlinux, err);
    if (result == 0)
        result = modules_pick(contents, modules, err);
    return result;
}

static int check_space(const char *folder, struct error *err)
{
    uint64_t space;
    int result = folder_free_space(folder, &space, err);
    if (result < 0 || space >= SPACE_NEEDED)
        return result;
    error_set(err, ERROR_NO_SPACE, "fetching the kernel needs %llu MB, %s has %llu MB left",
              (unsigned long long)(SPACE_NEEDED >> 20), home_folder(),
              (unsigned long long)(space >> 20));
    return error_hint(err, "free some space, or set MSB_HOME to a folder on another disk");
}

/* `source` is the file of a chosen kernel; NULL: Debian's of that version. */
static int build(const char *source, const char *version, struct error *err)
{
    cleanup_free char *workspace = NULL;
    int lock = home_workspace(&workspace, err);
    if (lock < 0)
        return lock;
    cleanup_free char *made = xasprintf("%s/kernel", workspace);
    cleanup_free char *vmlinux = xasprintf("%s/vmlinux", made);
    progress_begin(source ? "Unwrapping the kernel %s" : "Fetching Debian's kernel %s",
                   source ? source : version);
    int result = check_space(workspace, err);
    if (result == 0)
        result = folder_make(made, 0755, err);
    if (result == 0)
        result = source ? kernel_unwrap(source, vmlinux, err)
                        : build_debian(version, workspace, made, err);
    if (result == 0)
        result = publish(made, version, err);
    progress_end(result == 0);
    home_workspace_end(workspace, lock);
    return result;
}

static int lock_store(struct error *err)
{
    cleanup_free char *folder = home_path("kernels");
    cleanup_free char *path = xasprintf("%s/.lock", folder);
    int result = folder_make(folder, 0755, err);
    if (result < 0)
        return error_hint(err, "set MSB_HOME to a folder you may write to");
    return lock_wait(path, "prepares a kernel", err);
}

int kernel_update(struct kernel *kernel, struct error *err)
{
    *kernel = (struct kernel){0};
    cleanup_strv char **versions = NULL;
    int result = kernel_package_resolve(&versions, err);
    if (result < 0)
        return result;
    cleanup_fd int lock = lock_store(err);
    if (lock < 0)
        return lock;
    for (size_t i = 0; versions[i]; i++) {
        if (standing_of(versions[i], NULL) == FAILED)
            continue;
        if (load_stored(versions[i], kernel))
            return 0;
        result = build(NULL, versions[i], err);
        if (result < 0 || load_stored(versions[i], kernel))
            return result;
    }
    error_set(err, ERROR_MISSING, "no kernel that apt offers has passed its trial");
    return error_hint(err, "`msb doctor` tells why; choose another with --kernel FILE");
}

static int ensure_custom(const char *chosen, struct kernel *kernel, struct error *err)
{
    cleanup_free char *path = NULL;
    cleanup_free char *version = NULL;
    int result = identify_custom(chosen, &path, &version, err);
    if (result < 0)
        return result;
    cleanup_fd int lock = lock_store(err);
    if (lock < 0)
        return lock;
    if (find_custom(chosen, kernel, err) == 0)
        return 0;
    result = build(path, version, err);
    return result < 0 ? result : find_custom(chosen, kernel, err);
}

int kernel_ensure(const char *chosen, struct kernel *kernel, struct error *err)
{
    *kernel = (struct kernel){0};
    int result = chosen ? find_custom(chosen, kernel, err) : find_debian(true, kernel, err);
    if (result == 0 || err->code != ERROR_NOT_FOUND)
        return result;
    return chosen ? ensure_custom(chosen, kernel, err) : kernel_update(kernel, err);
}
