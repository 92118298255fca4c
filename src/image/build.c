#include "image/build.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/progress.h"
#include "image/pack.h"
#include "image/store.h"
#include "image/userns.h"

#define SPACE_HINT "free some space, or set MSB_HOME to a folder on another disk"

/* Fixed, so that equal contents make an equal file. */
#define BUILT_FILE_TIME "1686355200"

/* $1 is the new root. */
#define CUSTOMIZE_HOOK                                                                             \
    "cp \"$MSB_SCRIPT\" \"$1/customize.sh\" && "                                                   \
    "chroot \"$1\" sh -eu /customize.sh && "                                                       \
    "rm \"$1/customize.sh\""

struct workplace {
    char *folder;
    char *root;   /* the new root file system */
    char *script; /* the recipe's */
    char *blob;   /* the result */
    char **env;
    int lock;
};

int build_check_tools(struct error *err)
{
    int result = pack_check_tools(err);
    cleanup_free char *path = process_find("mmdebstrap");
    if (result < 0 || path)
        return result;
    error_set(err, ERROR_MISSING, "the program mmdebstrap is not installed");
    return error_hint(err, "apt-get install mmdebstrap (or make quickstart)");
}

static int check_space(const struct recipe *recipe, const char *folder, struct error *err)
{
    uint64_t space;
    int result = folder_free_space(folder, &space, err);
    if (result < 0 || space >= recipe->space)
        return result;
    error_set(err, ERROR_NO_SPACE, "building the image %s needs %llu MB, %s has %llu MB left",
              recipe->config.reference, (unsigned long long)(recipe->space >> 20), home_folder(),
              (unsigned long long)(space >> 20));
    return error_hint(err, SPACE_HINT);
}

/* What the caller's environment says about languages or packages must not reach the image. */
static char **make_env(const struct workplace *place)
{
    static const char *const kept[] = {"http_proxy", "https_proxy", "no_proxy",
                                       "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};
    char **env = NULL;
    strv_append(&env, xstrdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    strv_append(&env, xstrdup("LC_ALL=C.UTF-8"));
    strv_append(&env, xstrdup("DEBIAN_FRONTEND=noninteractive"));
    strv_append(&env, xstrdup("HOME=/root"));
    strv_append(&env, xasprintf("MSB_SCRIPT=%s", place->script));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = getenv(kept[i]);
        if (value)
            strv_append(&env, xasprintf("%s=%s", kept[i], value));
    }
    return env;
}

static int open_workplace(const struct recipe *recipe, struct workplace *place, struct error *err)
{
    cleanup_free char *tmp = home_path("tmp");
    userns_sweep(tmp);
    place->lock = home_workspace(&place->folder, err);
    if (place->lock < 0)
        return place->lock;
    place->root = xasprintf("%s/root", place->folder);
    place->script = xasprintf("%s/customize.sh", place->folder);
    place->blob = xasprintf("%s/image.erofs", place->folder);
    place->env = make_env(place);
    int result = check_space(recipe, place->folder, err);
    if (result < 0)
        return result;
    return file_write_atomic(place->script, buf_data(&recipe->script), buf_length(&recipe->script),
                             0644, err);
}

static void close_workplace(struct workplace *place)
{
    if (place->root)
        userns_remove(place->root);
    if (place->folder)
        home_workspace_end(place->folder, place->lock);
    free(place->folder);
    free(place->root);
    free(place->script);
    free(place->blob);
    strv_free(place->env);
}

static char **bootstrap_command(const struct recipe *recipe, const struct workplace *place)
{
    char **argv = NULL;
    strv_append(&argv, xstrdup("mmdebstrap"));
    strv_append(&argv, xstrdup("--mode=root"));
    strv_append(&argv, xstrdup("--variant=minbase"));
    /* Done by our script, inside the new root: from outside a mishap would hit the host's apt. */
    strv_append(&argv, xstrdup("--skip=cleanup/apt"));
    strv_append(&argv, xstrdup("--aptopt=APT::Install-Recommends \"false\""));
    /* Its own user could not reach into our private folder. */
    strv_append(&argv, xstrdup("--aptopt=APT::Sandbox::User \"root\""));
    for (char **path = recipe->excludes; path && *path; path++)
        strv_append(&argv, xasprintf("--dpkgopt=path-exclude=%s", *path));
    for (char **path = recipe->includes; path && *path; path++)
        strv_append(&argv, xasprintf("--dpkgopt=path-include=%s", *path));
    for (char **package = recipe->packages; package && *package; package++)
        strv_append(&argv, xasprintf("--include=%s", *package));
    strv_append(&argv, xstrdup("--customize-hook=" CUSTOMIZE_HOOK));
    strv_append(&argv, xstrdup(recipe->suite));
    strv_append(&argv, xstrdup(place->root));
    const char *mirror = getenv("MSB_DEBIAN_MIRROR");
    if (mirror && *mirror)
        strv_append(&argv, xstrdup(mirror));
    return argv;
}

/* The reason is lost in what mmdebstrap says, but a build uses well below what it asks for. */
static bool is_full(const struct recipe *recipe, const struct workplace *place)
{
    struct error ignored;
    uint64_t space;
    return folder_free_space(place->folder, &space, &ignored) == 0 && space < recipe->space / 4;
}

static int bootstrap(const struct recipe *recipe, const struct workplace *place, struct error *err)
{
    cleanup_strv char **argv = bootstrap_command(recipe, place);
    struct process_options options = {.env = place->env, .show_lines = true};
    int result = userns_run(argv, options, err);
    if (result == 0 || err->code == ERROR_CANCELLED)
        return result;
    if (err->code == ERROR_NO_SPACE || is_full(recipe, place))
        return error_set(err, ERROR_NO_SPACE, "the disk of %s is full", home_folder());
    return error_hint(err, "check the network; MSB_DEBIAN_MIRROR chooses a Debian mirror");
}

/*
 * What the build made gets a fixed time. What came out of packages keeps its own, because Python
 * compares it with that in its .pyc files. The script is as old as the build.
 */
static int fix_times(const struct workplace *place, struct error *err)
{
    /* Made anew by an ordinary user's build only. */
    cleanup_free char *devices = xasprintf("%s/dev", place->root);
    char *argv[] = {"find",
                    place->root,
                    "(",
                    "-newer",
                    place->script,
                    "-o",
                    "-path",
                    devices,
                    ")",
                    "-exec",
                    "touch",
                    "--no-dereference",
                    "--date=@" BUILT_FILE_TIME,
                    "{}",
                    "+",
                    NULL};
    return userns_run(argv, (struct process_options){.env = place->env}, err);
}

int build_image(const struct recipe *recipe, struct error *err)
{
    struct workplace place = {.lock = -1};
    progress_begin("Building image %s", recipe->config.reference);
    int result = open_workplace(recipe, &place, err);
    if (result == 0)
        result = bootstrap(recipe, &place, err);
    if (result == 0)
        result = fix_times(&place, err);
    if (result == 0)
        result = pack_root(place.root, place.blob, "dev|proc|sys|run|tmp", err);
    if (result == 0)
        result = store_add(place.blob, &recipe->config, recipe->hash, err);
    progress_end(result == 0);
    close_workplace(&place);
    if (result < 0 && err->code == ERROR_NO_SPACE)
        error_hint(err, SPACE_HINT);
    return result < 0 ? error_wrap(err, "cannot build the image %s", recipe->config.reference) : 0;
}
