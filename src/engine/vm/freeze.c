#include "engine/vm/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/freeze_internal.h"
#include "engine/vm/process_memory.h"

/* The tables come first in the file and are known last. */
#define TABLES_ROOM (4u << 20)

int freeze_read(const struct freezing *f, const char *name, struct buf *out, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/%s", (int)f->process, name);
    return file_read(path, 1u << 20, out, err);
}

uint64_t freeze_add_name(struct freezing *f, const char *name)
{
    uint64_t at = buf_length(&f->names);
    buf_append(&f->names, name, strlen(name) + 1);
    return at;
}

static int read_boot(char *boot, size_t size, struct error *err)
{
    cleanup_buf struct buf text = {0};
    int result = file_read("/proc/sys/kernel/random/boot_id", size - 1, &text, err);
    if (result == 0)
        snprintf(boot, size, "%.36s", buf_text(&text));
    return result;
}

static void put_table(struct buf *tables, const struct buf *table, uint64_t *offset)
{
    while (buf_length(tables) % 64)
        buf_append(tables, "", 1);
    *offset = buf_length(tables);
    buf_append(tables, buf_data(table), buf_length(table));
}

static int write_tables(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf tables = {0};
    buf_append(&tables, &f->head, sizeof f->head);
    put_table(&tables, &f->file_table, &f->head.files);
    put_table(&tables, &f->mappings, &f->head.mappings);
    put_table(&tables, &f->descriptors, &f->head.descriptors);
    put_table(&tables, &f->thread_table, &f->head.threads);
    put_table(&tables, &f->names, &f->head.names);
    f->head.magic = FROZEN_MAGIC;
    f->head.tables_length = buf_length(&tables);
    f->head.length = f->contents;
    memcpy(buf_data(&tables), &f->head, sizeof f->head);
    if (buf_length(&tables) > TABLES_ROOM)
        return error_set(err, ERROR_LIMIT, "its memory is in too many parts");
    return pwrite(f->to, buf_data(&tables), buf_length(&tables), 0) == (ssize_t)buf_length(&tables)
               ? 0
               : error_errno(err, errno, "cannot write down a process");
}

static int describe(struct freezing *f, struct error *err)
{
    int result = freeze_threads(f, err);
    if (result == 0)
        result = freeze_memory(f, err);
    if (result == 0)
        result = freeze_descriptors(f, err);
    if (result == 0)
        result = read_boot(f->head.boot, sizeof f->head.boot, err);
    return result < 0 ? result : write_tables(f, err);
}

static int find_memory(struct freezing *f, struct error *err)
{
    struct stat status;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", f->files->memory);
    if (fstat(f->files->memory, &status) < 0 ||
        readlink(path, f->memory_name, sizeof f->memory_name - 1) < 0)
        return error_errno(err, errno, "cannot look at the memory of a machine");
    f->memory_inode = status.st_ino;
    return 0;
}

int freeze(pid_t process, const struct freeze_files *files, int to, struct error *err)
{
    struct freezing *f = xcalloc(1, sizeof *f);
    *f = (struct freezing){.process = process, .files = files, .to = to, .contents = TABLES_ROOM};
    f->piece = xmalloc(FREEZE_PIECE);
    f->mem = process_memory_open(process, "mem", O_RDONLY, err);
    f->pagemap = f->mem < 0 ? -1 : process_memory_open(process, "pagemap", O_RDONLY, err);
    int result = f->pagemap < 0 ? -1 : 0;
    if (result == 0)
        result = find_memory(f, err);
    if (result == 0)
        result = freeze_hold(f, err);
    if (result == 0)
        result = describe(f, err);
    freeze_let_go(f);
    fd_close(f->mem);
    fd_close(f->pagemap);
    struct buf *tables[] = {&f->file_table, &f->mappings, &f->descriptors, &f->thread_table,
                            &f->names};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        buf_free(tables[i]);
    free(f->piece);
    free(f);
    return result;
}

static bool is_whole(const struct frozen *head, int file)
{
    struct stat status;
    return head->magic == FROZEN_MAGIC && head->tables_length <= head->length &&
           fstat(file, &status) == 0 && (uint64_t)status.st_size == head->length;
}

static bool has_its_libraries(const struct frozen *head, int file)
{
    const uint8_t *tables = mmap(NULL, head->tables_length, PROT_READ, MAP_SHARED, file, 0);
    if (tables == MAP_FAILED)
        return false;
    const struct frozen_file *files = (const struct frozen_file *)(tables + head->files);
    bool all = true;
    for (uint64_t i = 0; all && i < head->file_count; i++) {
        struct stat status;
        const char *name = (const char *)tables + head->names + files[i].name;
        all = stat(name, &status) == 0 && frozen_is_file(&files[i], &status);
    }
    munmap((void *)(uintptr_t)tables, head->tables_length);
    return all;
}

enum frozen_state frozen_look(int file)
{
    struct frozen head;
    char boot[sizeof head.boot];
    struct error ignored;
    if (pread(file, &head, sizeof head, 0) != sizeof head ||
        read_boot(boot, sizeof boot, &ignored) < 0 || strcmp(boot, head.boot) != 0)
        return FROZEN_OUTDATED;
    if (head.magic == FROZEN_NOT)
        return FROZEN_REFUSED;
    return is_whole(&head, file) && has_its_libraries(&head, file) ? FROZEN_USABLE
                                                                   : FROZEN_OUTDATED;
}

int frozen_refuse(int to, struct error *err)
{
    struct frozen head = {.magic = FROZEN_NOT};
    int result = read_boot(head.boot, sizeof head.boot, err);
    if (result < 0 || pwrite(to, &head, sizeof head, 0) == sizeof head)
        return result;
    return error_errno(err, errno, "cannot note that a machine cannot be frozen");
}
