#include "engine/vm/initramfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/agent_program.h"

#define MODULE_MAX (64u << 20)

static void pad(struct buf *archive)
{
    while (buf_length(archive) % 4)
        buf_append(archive, "", 1);
}

/* One entry in the kernel's "newc" cpio format. */
static void add_entry(struct buf *archive, const char *name, mode_t mode, const void *bytes,
                      size_t size)
{
    static unsigned inode;
    buf_printf(archive, "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x", ++inode,
               (unsigned)mode, 0, 0, 1, 0, size, 0, 0, 0, 0, strlen(name) + 1, 0);
    buf_append(archive, name, strlen(name) + 1);
    pad(archive);
    buf_append(archive, bytes, size);
    pad(archive);
}

/*
 * The length of a module without the signature at its end. Nobody could put another module there,
 * and to check megabytes of them would take an emulated machine a fifth of a second.
 */
static size_t unsigned_length(const uint8_t *bytes, size_t size)
{
    static const char mark[] = "~Module signature appended~\n";
    enum { MARK = sizeof mark - 1, INFO = 12 };
    if (size < MARK + INFO || memcmp(bytes + size - MARK, mark, MARK) != 0)
        return size;
    size_t rest = size - MARK - INFO;
    const uint8_t *info = bytes + rest;
    size_t signature =
        info[3] + info[4] + ((size_t)info[8] << 24 | info[9] << 16 | info[10] << 8 | info[11]);
    return signature <= rest ? rest - signature : size;
}

static int add_module(struct buf *archive, const char *folder, const char *name, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    cleanup_free char *inside = xasprintf("modules/%s", name);
    cleanup_buf struct buf bytes = {0};
    int result = file_read(path, MODULE_MAX, &bytes, err);
    if (result == 0)
        add_entry(archive, inside, S_IFREG | 0444, buf_data(&bytes),
                  unsigned_length(buf_data(&bytes), buf_length(&bytes)));
    return result;
}

static int add_modules(struct buf *archive, const char *folder, struct error *err)
{
    cleanup_free char *order_path = xasprintf("%s/order", folder);
    cleanup_buf struct buf order = {0};
    int result = file_read(order_path, 1 << 20, &order, err);
    if (result < 0)
        return result;
    add_entry(archive, "modules", S_IFDIR | 0755, NULL, 0);
    add_entry(archive, "modules/order", S_IFREG | 0444, buf_data(&order), buf_length(&order));
    cleanup_free char *names = xstrdup(buf_text(&order));
    char *rest = names;
    for (const char *name; result == 0 && (name = strsep(&rest, "\n"));) {
        if (name[0])
            result = add_module(archive, folder, name, err);
    }
    return result;
}

int initramfs_write(const char *path, const struct kernel *kernel, struct error *err)
{
    cleanup_buf struct buf archive = {0};
    add_entry(&archive, "dev", S_IFDIR | 0755, NULL, 0);
    size_t agent_size;
    const uint8_t *agent = agent_program(&agent_size);
    add_entry(&archive, "init", S_IFREG | 0755, agent, agent_size);
    if (kernel->modules) {
        int result = add_modules(&archive, kernel->modules, err);
        if (result < 0)
            return error_wrap(err, "cannot collect the kernel's modules");
    }
    add_entry(&archive, "TRAILER!!!", 0, NULL, 0);
    return file_write_atomic(path, buf_data(&archive), buf_length(&archive), 0644, err);
}
