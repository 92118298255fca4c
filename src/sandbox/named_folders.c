#include "sandbox/named_folders.h"

#include <dirent.h>
#include <stddef.h>

#include "base/home.h"
#include "base/mem.h"

static void visit_namespace(const char *kind, const char *namespace, named_folder_visit *visit,
                            void *context)
{
    cleanup_free char *parent = home_path("%s/%s", kind, namespace);
    DIR *entries = opendir(parent);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        if (entry->d_name[0] == '.')
            continue;
        cleanup_free char *folder = xasprintf("%s/%s", parent, entry->d_name);
        visit(namespace, entry->d_name, folder, context);
    }
    if (entries)
        closedir(entries);
}

void named_folders_visit(const char *kind, const char *namespace, named_folder_visit *visit,
                         void *context)
{
    if (namespace) {
        visit_namespace(kind, namespace, visit, context);
        return;
    }
    cleanup_free char *parent = home_path("%s", kind);
    DIR *entries = opendir(parent);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        if (entry->d_name[0] != '.')
            visit_namespace(kind, entry->d_name, visit, context);
    }
    if (entries)
        closedir(entries);
}
