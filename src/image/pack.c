#include "image/pack.h"

#include <stdbool.h>

#include "base/mem.h"
#include "base/progress.h"
#include "image/userns.h"

/* Fixed, so that equal contents make an equal file. */
#define FILE_SYSTEM_UUID "6d736221-0000-4000-8000-000000000001"

int pack_check_tools(struct error *err)
{
    static const char *const tools[][2] = {{"mkfs.erofs", "erofs-utils"},
                                           {"unshare", "util-linux"}};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        cleanup_free char *path = process_find(tools[i][0]);
        if (path)
            continue;
        error_set(err, ERROR_MISSING, "the program %s is not installed", tools[i][0]);
        return error_hint(err, "apt-get install %s (or make quickstart)", tools[i][1]);
    }
    return userns_check(err);
}

char **pack_command(const char *root, const char *blob, const char *emptied)
{
    char **argv = NULL;
    strv_append(&argv, xstrdup("mkfs.erofs"));
    strv_append(&argv, xstrdup("--quiet"));
    strv_append(&argv, xstrdup("--preserve-mtime"));
    strv_append(&argv, xstrdup("-U" FILE_SYSTEM_UUID));
    strv_append(&argv, xasprintf("--exclude-regex=^(%s)/.", emptied));
    strv_append(&argv, xstrdup(blob));
    strv_append(&argv, xstrdup(root));
    return argv;
}

int pack_root(const char *root, const char *blob, const char *emptied, struct error *err)
{
    cleanup_strv char **argv = pack_command(root, blob, emptied);
    char *env[] = {PACK_ENVIRONMENT, NULL};
    progress_detail("packing");
    return userns_run(argv, (struct process_options){.env = env}, err);
}
