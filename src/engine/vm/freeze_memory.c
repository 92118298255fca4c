#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/vm/freeze_internal.h"
#include "engine/vm/process_memory.h"

/* Pages between two that are written down are written too when there are so few. */
#define GAP 16
/* Room for the main thread's stack to grow. */
#define STACK_ROOM (1u << 20)

struct area {
    uint64_t begin, end, offset, inode;
    char rights[8];
    char name[4096];
};

static void add_mapping(struct freezing *f, const struct area *area, uint64_t begin, uint64_t end,
                        int32_t source, uint64_t offset)
{
    const struct frozen_mapping mapping = {
        .address = begin,
        .length = end - begin,
        .offset = offset,
        .source = source,
        .protection = (area->rights[0] == 'r' ? PROT_READ : 0u) |
                      (area->rights[1] == 'w' ? PROT_WRITE : 0u) |
                      (area->rights[2] == 'x' ? PROT_EXEC : 0u),
    };
    buf_append(&f->mappings, &mapping, sizeof mapping);
    f->head.mapping_count++;
}

/* Files are noted for as long as they are the same, whether they are mapped or not. */
static int32_t note_file(struct freezing *f, const char *name, const struct stat *status)
{
    const struct frozen_file *files = (const struct frozen_file *)buf_data(&f->file_table);
    for (uint64_t i = 0; i < f->head.file_count; i++) {
        if (strcmp((const char *)buf_data(&f->names) + files[i].name, name) == 0)
            return (int32_t)i;
    }
    const struct frozen_file file = {.inode = status->st_ino,
                                     .size = (uint64_t)status->st_size,
                                     .changed_s = (uint64_t)status->st_mtim.tv_sec,
                                     .changed_ns = (uint64_t)status->st_mtim.tv_nsec,
                                     .name = freeze_add_name(f, name)};
    buf_append(&f->file_table, &file, sizeof file);
    return (int32_t)f->head.file_count++;
}

/* What is mapped from a file that is another one by its name (of its own root, or on a file system
 * that lies over others) is written down whole. */
static int32_t find_file(struct freezing *f, const struct area *area)
{
    struct stat status;
    if (stat(area->name, &status) < 0)
        return FROZEN_OF_NOTHING;
    int32_t file = note_file(f, area->name, &status);
    return status.st_ino == area->inode ? file : FROZEN_OF_NOTHING;
}

/* Device numbers are not the same everywhere on some file systems. */
static bool is_memory(const struct freezing *f, const struct area *area)
{
    return area->inode == f->memory_inode && strcmp(area->name, f->memory_name) == 0;
}

static bool is_zero(const uint8_t *bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, FROZEN_PAGE - 1) == 0;
}

/* The pages from begin to end, behind those that are written already. */
static int write_run(struct freezing *f, const struct area *area, uint64_t begin, uint64_t end,
                     struct error *err)
{
    uint64_t offset = f->contents;
    for (uint64_t at = begin; at < end;) {
        size_t part = end - at < FREEZE_PIECE ? (size_t)(end - at) : FREEZE_PIECE;
        if (pread(f->mem, f->piece, part, (off_t)at) != (ssize_t)part ||
            pwrite(f->to, f->piece, part, (off_t)(f->contents)) != (ssize_t)part)
            return error_errno(err, errno, "cannot write down memory");
        at += part;
        f->contents += part;
    }
    add_mapping(f, area, begin, end, FROZEN_OF_SELF, offset);
    return 0;
}

/* Whether what is mapped there is not what it would be in a new mapping. */
static int is_changed(const struct freezing *f, uint64_t at, uint64_t entry, int32_t source,
                      bool whole, struct error *err)
{
    bool own = process_memory_is_own(entry);
    if (!own && !whole)
        return 0;
    if (source != FROZEN_OF_NOTHING)
        return own;
    if (pread(f->mem, f->piece, FROZEN_PAGE, (off_t)at) != FROZEN_PAGE)
        return error_errno(err, errno, "cannot read memory");
    return !is_zero(f->piece);
}

static int write_changed(struct freezing *f, const struct area *area, int32_t source, bool whole,
                         struct error *err)
{
    uint64_t entries[512];
    uint64_t begin = 0, end = 0; /* of the run */
    for (uint64_t at = area->begin; at < area->end;) {
        uint64_t wanted = (area->end - at) / FROZEN_PAGE;
        wanted = wanted < 512 ? wanted : 512;
        if (pread(f->pagemap, entries, wanted * 8, (off_t)(at / FROZEN_PAGE * 8)) !=
            (ssize_t)(wanted * 8))
            return error_errno(err, errno, "cannot read which pages are its own");
        for (uint64_t i = 0; i < wanted; i++, at += FROZEN_PAGE) {
            int changed = is_changed(f, at, entries[i], source, whole, err);
            if (changed < 0)
                return changed;
            if (!changed)
                continue;
            if (begin && at - end > GAP * FROZEN_PAGE) {
                if (write_run(f, area, begin, end, err) < 0)
                    return -1;
                begin = 0;
            }
            begin = begin ? begin : at;
            end = at + FROZEN_PAGE;
        }
    }
    return begin ? write_run(f, area, begin, end, err) : 0;
}

static int describe_clock(struct freezing *f, const struct area *area, struct error *err)
{
    if (f->head.clock_part_count == FROZEN_CLOCK_PARTS)
        return error_set(err, ERROR_MISSING, "this kernel's clocks are not known");
    f->head.clock_parts[f->head.clock_part_count].address = area->begin;
    f->head.clock_parts[f->head.clock_part_count++].length = area->end - area->begin;
    if (strcmp(area->name, "[vdso]") == 0)
        f->head.clock_code = area->begin;
    return 0;
}

static int describe_area(struct freezing *f, const struct area *area, struct error *err)
{
    uint64_t below = f->below;
    f->below = area->end;
    if (strcmp(area->name, "[vsyscall]") == 0)
        return 0;
    if (strncmp(area->name, "[v", 2) == 0)
        return describe_clock(f, area, err);
    if (area->begin < FROZEN_LOWEST)
        return error_set(err, ERROR_MISSING, "it lies where thawing needs room");
    if (area->rights[3] != 'p')
        return error_set(err, ERROR_MISSING, "it shares memory: %s", area->name);
    int32_t source = is_memory(f, area) ? FROZEN_OF_MEMORY
                     : area->inode      ? find_file(f, area)
                                        : FROZEN_OF_NOTHING;
    uint64_t begin = area->begin;
    if (strcmp(area->name, "[stack]") == 0 && begin - below > 2 * STACK_ROOM)
        begin -= STACK_ROOM;
    add_mapping(f, area, begin, area->end, source, source == FROZEN_OF_NOTHING ? 0 : area->offset);
    if (area->rights[0] != 'r')
        return 0;
    bool whole = area->inode && source == FROZEN_OF_NOTHING;
    return write_changed(f, area, source, whole, err);
}

int freeze_memory(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf maps = {0};
    int result = freeze_read(f, "maps", &maps, err);
    char *rest = result == 0 ? (char *)(uintptr_t)buf_text(&maps) : NULL;
    for (char *line; result == 0 && (line = strsep(&rest, "\n")) && *line;) {
        struct area area = {0};
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %4095[^\n]",
                   &area.begin, &area.end, area.rights, &area.offset, &area.inode, area.name) < 5)
            return error_set(err, ERROR_IO, "cannot read its mappings");
        result = describe_area(f, &area, err);
    }
    return result;
}
