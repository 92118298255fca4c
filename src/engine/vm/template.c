#include "engine/vm/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/vm/freeze.h"
#include "engine/vm/host.h"
#include "engine/vm/kernel.h"
#include "engine/vm/kernel_trial.h"
#include "engine/vm/template_build.h"
#include "engine/vm/template_freeze.h"
#include "engine/vm/template_key.h"

/* Begins the name of a mark beside a template that was made anew because its clones never answered.
 */
#define DISTRUSTED ".distrusted-"
#define UNUSED_SECONDS (14L * 24 * 3600)

static bool has_size(const char *folder, const char *name, json_t *about)
{
    struct stat status;
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    return stat(path, &status) == 0 &&
           status.st_size == json_integer_value(json_object_get(about, name));
}

static const char *key_of(const char *folder)
{
    const char *slash = folder ? strrchr(folder, '/') : NULL;
    return slash ? slash + 1 : "";
}

static enum frozen_state look_at(struct template *template, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", template->folder, name);
    cleanup_fd int file = open(path, O_RDONLY | O_CLOEXEC);
    enum frozen_state state = file < 0 ? FROZEN_OUTDATED : frozen_look(file);
    if (state == FROZEN_USABLE)
        template->frozen = name;
    return state;
}

/* With hardware virtualisation the kernel has a part of each machine. */
static void look_at_frozen(struct template *template, const char *accelerator)
{
    if (strcmp(accelerator, "tcg") != 0)
        return;
    enum frozen_state settled = look_at(template, TEMPLATE_SETTLED);
    if (settled == FROZEN_USABLE)
        return;
    enum frozen_state quick = look_at(template, TEMPLATE_FROZEN);
    template->may_freeze = quick == FROZEN_OUTDATED;
    if (quick == FROZEN_USABLE)
        template->may_settle = settled == FROZEN_OUTDATED;
}

/* Whole, as far as a glance can tell: every file is there with the size it was written with. */
static int load(const char *folder, struct template *template, struct error *err)
{
    cleanup_free char *about_path = xasprintf("%s/template.json", folder);
    json_error_t reason;
    json_t *about = json_load_file(about_path, 0, &reason);
    const char *kernel = json_string_value(json_object_get(about, "kernel"));
    bool whole = kernel && json_is_string(json_object_get(about, "accelerator"));
    for (size_t i = 0; whole && template_files[i]; i++)
        whole = has_size(folder, template_files[i], about);
    if (whole) {
        snprintf(template->kernel, sizeof template->kernel, "%s", kernel);
        snprintf(template->key, sizeof template->key, "%s", key_of(folder));
        template->folder = xstrdup(folder);
        look_at_frozen(template, json_string_value(json_object_get(about, "accelerator")));
        /* The time of last use, for clean_up. */
        utimensat(AT_FDCWD, about_path, NULL, 0);
    }
    json_decref(about);
    return whole ? 0 : error_set(err, ERROR_NOT_FOUND, "there is no template for this machine yet");
}

/* The template's folder, made from facts that are all quick to look up. */
static int locate(const struct machine_spec *spec, const struct kernel *kernel,
                  const char **accelerator, char **folder, struct error *err)
{
    cleanup_free char *key = NULL;
    int result = host_accelerator(spec->accelerator, accelerator, err);
    if (result == 0)
        result = template_key(spec, kernel, *accelerator, &key, err);
    if (result == 0)
        *folder = home_path("templates/%s", key);
    return result;
}

int template_find(const struct machine_spec *spec, struct template *template, struct error *err)
{
    *template = (struct template){0};
    struct kernel kernel;
    int result = kernel_find(spec->kernel, &kernel, err);
    if (result < 0)
        return result;
    cleanup_free char *folder = NULL;
    result = locate(spec, &kernel, &template->accelerator, &folder, err);
    if (result == 0)
        result = load(folder, template, err);
    kernel_release(&kernel);
    return result;
}

bool template_distrust(const char *key)
{
    cleanup_free char *mark = home_path("templates/" DISTRUSTED "%s", key);
    cleanup_free char *about = home_path("templates/%s/template.json", key);
    cleanup_fd int once = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return once >= 0 && unlink(about) == 0;
}

/* Removes templates that nobody has used for a long time. Running clones keep the open files. */
static void clean_up(void)
{
    struct error ignored;
    cleanup_free char *parent = home_path("templates");
    DIR *entries = opendir(parent);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        struct stat status;
        cleanup_free char *folder = xasprintf("%s/%s", parent, entry->d_name);
        cleanup_free char *about = xasprintf("%s/template.json", folder);
        if (stat(about, &status) == 0 && status.st_mtime < time(NULL) - UNUSED_SECONDS)
            folder_remove(folder, &ignored);
        else if (strncmp(entry->d_name, DISTRUSTED, sizeof DISTRUSTED - 1) == 0 &&
                 stat(folder, &status) == 0 && status.st_mtime < time(NULL) - UNUSED_SECONDS)
            unlink(folder);
    }
    if (entries)
        closedir(entries);
}

static int build_into(const char *folder, const struct machine_spec *spec,
                      const struct kernel *kernel, const char *accelerator, struct error *err)
{
    cleanup_free char *work = NULL;
    int lock = home_workspace(&work, err);
    if (lock < 0)
        return lock;
    int result = template_build(work, spec, kernel, accelerator, err);
    if (result == 0)
        result = folder_remove(folder, err);
    if (result == 0 && rename(work, folder) < 0)
        result = error_errno(err, errno, "cannot put the template into place");
    home_workspace_end(work, lock);
    return result;
}

static bool is_ready(const char *folder)
{
    struct error ignored;
    struct template template = {0};
    bool ready = load(folder, &template, &ignored) == 0 && !template.may_freeze;
    template_release(&template);
    return ready;
}

/* Whoever held the lock before may have done all of it, or a part. */
static int complete(const char *folder, const struct machine_spec *spec,
                    const struct kernel *kernel, const char *accelerator, struct error *err)
{
    struct template template = {.accelerator = accelerator};
    int result = load(folder, &template, err);
    if (result < 0) {
        clean_up();
        result = build_into(folder, spec, kernel, accelerator, err);
        if (result == 0)
            result = load(folder, &template, err);
    }
    if (result == 0 && template.may_freeze)
        result = template_freeze(&template, spec, TEMPLATE_FROZEN, err);
    template_release(&template);
    return result;
}

static int ensure_with(const struct kernel *kernel, const struct machine_spec *spec,
                       struct error *err)
{
    const char *accelerator;
    cleanup_free char *folder = NULL;
    int result = locate(spec, kernel, &accelerator, &folder, err);
    if (result < 0 || is_ready(folder))
        return result;
    cleanup_free char *parent = home_path("templates");
    result = folder_make(parent, 0700, err);
    if (result < 0)
        return result;
    cleanup_free char *lock_path = xasprintf("%s/.lock", parent);
    cleanup_fd int lock = lock_wait(lock_path, "prepares a template", err);
    return lock < 0 ? lock : complete(folder, spec, kernel, accelerator, err);
}

static int try_kernel(struct kernel *kernel, const struct machine_spec *spec, struct error *err)
{
    const char *accelerator;
    int result = host_accelerator(spec->accelerator, &accelerator, err);
    if (result == 0)
        result = kernel_trial(kernel, spec, accelerator, err);
    if (result == 0)
        return kernel_judge(kernel, NULL, err);
    if (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TIMEOUT)
        return result;
    log_warn("the kernel %s is not used: %s", kernel->version, err->message);
    struct error reason = *err;
    return kernel_judge(kernel, reason.message, err);
}

/* The newest that passes its trial. Whoever held the lock before may have tried it. */
static int choose_kernel(const struct machine_spec *spec, struct kernel *kernel, struct error *err)
{
    cleanup_free char *lock_path = home_path("kernels/.trial");
    for (;;) {
        int result = kernel_ensure(spec->kernel, kernel, err);
        if (result < 0 || kernel->is_tried)
            return result;
        cleanup_fd int lock = lock_wait(lock_path, "tries a kernel", err);
        if (lock < 0)
            return lock;
        kernel_release(kernel);
        result = kernel_ensure(spec->kernel, kernel, err);
        if (result == 0 && !kernel->is_tried)
            result = try_kernel(kernel, spec, err);
        kernel_release(kernel);
        if (result < 0)
            return result;
    }
}

int template_ensure(const struct machine_spec *spec, struct error *err)
{
    struct kernel kernel;
    int result = choose_kernel(spec, &kernel, err);
    if (result < 0)
        return result;
    result = ensure_with(&kernel, spec, err);
    kernel_release(&kernel);
    return result;
}

int template_settle(const struct machine_spec *spec, struct error *err)
{
    struct template template = {0};
    cleanup_free char *lock_path = home_path("templates/.settling");
    int result = template_find(spec, &template, err);
    if (result == 0 && template.may_settle) {
        cleanup_fd int lock = file_lock(lock_path, false, err);
        if (lock >= 0)
            result = template_freeze(&template, spec, TEMPLATE_SETTLED, err);
    }
    template_release(&template);
    return result;
}

void template_release(struct template *template)
{
    free(template->folder);
    template->folder = NULL;
}
