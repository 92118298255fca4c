#include "image/pack.h"

#include <stdbool.h>

#include "base/mem.h"
#include "base/progress.h"
#include "image/userns.h"

/* Fixed, so that equal contents make an equal file. */
#define FILE_SYSTEM_UUID "6d736221-0000-4000-8000-000000000001"
/* mkfs.erofs changes times after this one only, so it comes after any. */
#define FILE_SYSTEM_TIME "4102444800"

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

int pack_root(const char *root, const char *blob, const char *emptied, struct error *err)
{
    cleanup_free char *exclude = xasprintf("--exclude-regex=^(%s)/.", emptied);
    cleanup_free char *from = xstrdup(root), *to = xstrdup(blob);
    char *argv[] = {"mkfs.erofs", "--quiet", "--preserve-mtime", "-U" FILE_SYSTEM_UUID, exclude, to,
                    from,         NULL};
    char *env[] = {"SOURCE_DATE_EPOCH=" FILE_SYSTEM_TIME, NULL};
    progress_detail("packing");
    return userns_run(argv, (struct process_options){.env = env}, err);
}
