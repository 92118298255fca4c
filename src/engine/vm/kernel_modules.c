#include "engine/vm/kernel_modules.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/kernel_unwrap.h"

#define MODULE_LIMIT ((size_t)64 << 20)
#define BUILTIN_LIMIT ((size_t)4 << 20)
#define DEPTH_LIMIT 16

static const struct {
    const char *name;
    bool optional;
} wanted[] = {
    {"virtio", false},
    {"virtio_ring", false},
    {"virtio_mmio", false},
    {"virtio_blk", false},
    {"virtio_console", false},
    /* Asked for at run time by ext4 and erofs, so no depends= names it; newer kernels have none. */
    {"crc32c_generic", true},
    {"erofs", false},
    {"ext4", false},
    {"overlay", false},
    {"9p", false},
    {"9pnet_virtio", false},
};

struct picking {
    const char *package;
    const char *modules;
    struct buf builtin; /* modules.builtin: one path a line */
    char **picked;      /* names, in load order */
};

static bool is_name(const char *text)
{
    if (!*text || strlen(text) > 64)
        return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_' && *text != '-')
            return false;
    }
    return true;
}

static void use_underscores(char *name)
{
    for (; *name; name++) {
        if (*name == '-')
            *name = '_';
    }
}

char *modules_name_of(const char *file_name)
{
    const char *suffix = strstr(file_name, ".ko");
    if (!suffix || (suffix[3] != '\0' && suffix[3] != '.'))
        return NULL;
    cleanup_free char *name = xstrndup(file_name, (size_t)(suffix - file_name));
    if (!is_name(name))
        return NULL;
    use_underscores(name);
    return steal_pointer(&name);
}

/* The value of the first "depends=" that begins an entry; NULL when there is none. */
static char *find_depends(const uint8_t *bytes, size_t size)
{
    static const char key[] = "\0depends=";
    const size_t key_length = sizeof key - 1;
    const uint8_t *entry = memmem(bytes, size, key, key_length);
    if (!entry)
        return NULL;
    const char *value = (const char *)entry + key_length;
    return xstrndup(value, size - (size_t)(value - (const char *)bytes));
}

int modules_read_depends(const uint8_t *bytes, size_t size, char ***names, struct error *err)
{
    cleanup_free char *value = find_depends(bytes, size);
    cleanup_strv char **found = NULL;
    char *rest = value;
    for (char *name; rest && (name = strsep(&rest, ","));) {
        if (!*name)
            continue;
        if (!is_name(name))
            return error_set(err, ERROR_INVALID, "its list of dependencies is damaged");
        use_underscores(name);
        strv_append(&found, xstrdup(name));
    }
    *names = steal_pointer(&found);
    return 0;
}

static bool is_picked(const struct picking *picking, const char *name)
{
    for (char **at = picking->picked; at && *at; at++) {
        if (strcmp(*at, name) == 0)
            return true;
    }
    return false;
}

static bool is_builtin(struct picking *picking, const char *name)
{
    cleanup_free char *lines = xstrdup(buf_text(&picking->builtin));
    char *rest = lines;
    for (const char *line; (line = strsep(&rest, "\n"));) {
        const char *slash = strrchr(line, '/');
        cleanup_free char *listed = modules_name_of(slash ? slash + 1 : line);
        if (listed && strcmp(listed, name) == 0)
            return true;
    }
    return false;
}

/* Its path in the package, under whichever suffix; NULL when it has no file. */
static char *find_file(const struct picking *picking, const char *name, bool *compressed)
{
    static const char *const suffixes[] = {"", ".xz", ".zst", ".gz"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        cleanup_free char *path = xasprintf("%s/%s.ko%s", picking->package, name, suffixes[i]);
        if (file_exists(path)) {
            *compressed = i > 0;
            return steal_pointer(&path);
        }
    }
    return NULL;
}

static int store_module(const char *from, bool compressed, const char *to, struct error *err)
{
    if (!compressed)
        return file_copy(from, to, 0644, err);
    cleanup_buf struct buf packed = {0};
    int result = file_read(from, MODULE_LIMIT, &packed, err);
    if (result < 0)
        return result;
    return kernel_decompress(buf_data(&packed), buf_length(&packed), MODULE_LIMIT, to, err);
}

static int pick(struct picking *picking, const char *name, bool optional, int depth,
                struct error *err);

static int pick_with_depends(struct picking *picking, const char *from, bool compressed,
                             const char *name, int depth, struct error *err)
{
    cleanup_free char *to = xasprintf("%s/%s.ko", picking->modules, name);
    cleanup_buf struct buf bytes = {0};
    cleanup_strv char **depends = NULL;
    int result = store_module(from, compressed, to, err);
    if (result == 0)
        result = file_read(to, MODULE_LIMIT, &bytes, err);
    if (result == 0)
        result = modules_read_depends(buf_data(&bytes), buf_length(&bytes), &depends, err);
    if (result < 0)
        return error_wrap(err, "cannot take the kernel module %s", name);
    for (char **at = depends; at && *at; at++) {
        result = pick(picking, *at, false, depth + 1, err);
        if (result < 0)
            return result;
    }
    strv_append(&picking->picked, xstrdup(name));
    return 0;
}

static int pick(struct picking *picking, const char *name, bool optional, int depth,
                struct error *err)
{
    if (is_picked(picking, name))
        return 0;
    if (depth > DEPTH_LIMIT)
        return error_set(err, ERROR_INVALID, "kernel module %s depends on too many", name);
    bool compressed = false;
    cleanup_free char *from = find_file(picking, name, &compressed);
    if (from)
        return pick_with_depends(picking, from, compressed, name, depth, err);
    if (optional || is_builtin(picking, name))
        return 0;
    return error_set(err, ERROR_MISSING,
                     "the kernel package has no module %s, and it is not built in", name);
}

static int write_order(const struct picking *picking, struct error *err)
{
    cleanup_buf struct buf text = {0};
    for (char **at = picking->picked; at && *at; at++)
        buf_printf(&text, "%s.ko\n", *at);
    cleanup_free char *path = xasprintf("%s/order", picking->modules);
    return file_write_atomic(path, buf_data(&text), buf_length(&text), 0644, err);
}

int modules_pick(const char *package, const char *modules, struct error *err)
{
    struct picking picking = {.package = package, .modules = modules};
    cleanup_free char *builtin = xasprintf("%s/modules.builtin", package);
    int result = folder_make(modules, 0755, err);
    if (result == 0 && file_exists(builtin))
        result = file_read(builtin, BUILTIN_LIMIT, &picking.builtin, err);
    for (size_t i = 0; result == 0 && i < sizeof wanted / sizeof *wanted; i++)
        result = pick(&picking, wanted[i].name, wanted[i].optional, 0, err);
    if (result == 0)
        result = write_order(&picking, err);
    buf_free(&picking.builtin);
    strv_free(picking.picked);
    return result;
}
