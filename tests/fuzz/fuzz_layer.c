/* Hostile archives: whatever they say, everything stays below the folder they are applied to. */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "image/oci/layer.h"

static char place[] = "/dev/shm/fuzz-layer-XXXXXX";

static void remove_place(void)
{
    rmdir(place);
}

static void assert_only_root(void)
{
    DIR *entries = opendir(place);
    const struct dirent *entry;
    while ((entry = readdir(entries)))
        assert(entry->d_name[0] == '.' || strcmp(entry->d_name, "root") == 0);
    closedir(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    if (strstr(place, "XXXXXX")) {
        assert(mkdtemp(place) && atexit(remove_place) == 0);
        setlocale(LC_CTYPE, "C.UTF-8");
    }
    cleanup_free char *root = xasprintf("%s/root", place);
    assert(folder_make(root, 0755, &err) == 0);
    cleanup_fd int folder = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int archive = memfd_create("layer", MFD_CLOEXEC);
    assert(folder >= 0 && file_write_all(archive, data, size) == 0);
    struct tree tree;
    struct layer_budget budget = {.bytes = 1 << 20, .entries = 200};
    tree_open(&tree, folder);
    for (int i = 0; i < 2; i++) {
        lseek(archive, 0, SEEK_SET);
        if (layer_apply(&tree, archive, &budget, &err) < 0)
            assert(err.code && err.message[0]);
    }
    tree_close(&tree);
    assert_only_root();
    assert(folder_remove(place, &err) == 0 && folder_make(place, 0700, &err) == 0);
    return 0;
}
