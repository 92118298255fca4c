#include "engine/vm/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/process_memory.h"

#define PAGE 4096u
#define PIECE (1u << 20)

struct mapping {
    uint64_t address, length, offset;
    bool is_changed; /* by another file that lies over the memory's, see frozen.h */
};

struct mappings {
    struct buf all; /* of struct mapping, by address */
    uint64_t length;
    int memory; /* of the process */
};

struct run {
    uint64_t offset, length;
};

static const struct mapping *mappings_begin(const struct mappings *mappings)
{
    return (const struct mapping *)buf_data(&mappings->all);
}

static const struct mapping *mappings_end(const struct mappings *mappings)
{
    return mappings_begin(mappings) + buf_length(&mappings->all) / sizeof(struct mapping);
}

static void free_mappings(struct mappings *mappings)
{
    fd_close(mappings->memory);
    buf_free(&mappings->all);
}

struct area {
    uint64_t begin, end, offset, inode;
};

static bool next_area(FILE *maps, struct area *area)
{
    char line[4352], rights[8];
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64, &area->begin,
                   &area->end, rights, &area->offset, &area->inode) == 5 &&
            strcmp(rights, "rw-p") == 0)
            return true;
    }
    return false;
}

/* The file is mapped as a whole, in one row; other files may lie over parts of that. */
static bool find_first(FILE *maps, ino_t file, uint64_t *begin)
{
    struct area area;
    while (next_area(maps, &area)) {
        if (area.inode == file) {
            *begin = area.begin - area.offset;
            return true;
        }
    }
    return false;
}

static void collect(FILE *maps, ino_t file, uint64_t begin, size_t size, struct mappings *found)
{
    struct area area;
    while (next_area(maps, &area)) {
        if (area.begin < begin || area.end > begin + size)
            continue;
        const struct mapping mapping = {.address = area.begin,
                                        .length = area.end - area.begin,
                                        .offset = area.begin - begin,
                                        .is_changed = area.inode != file};
        found->length += mapping.length;
        buf_append(&found->all, &mapping, sizeof mapping);
    }
}

static int find_mappings(pid_t process, int file, size_t size, struct mappings *found,
                         struct error *err)
{
    struct stat status;
    char path[64];
    uint64_t begin;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *maps = fopen(path, "re");
    if (!maps || fstat(file, &status) < 0) {
        error_errno(err, errno, "cannot look at the memory of a machine");
        if (maps)
            fclose(maps);
        return -1;
    }
    if (find_first(maps, status.st_ino, &begin)) {
        rewind(maps);
        collect(maps, status.st_ino, begin, size, found);
    }
    fclose(maps);
    return found->length == size
               ? 0
               : error_set(err, ERROR_IO, "the memory of a machine was not found");
}

static int open_memory(pid_t process, int file, size_t size, int flags, struct mappings *found,
                       struct error *err)
{
    *found = (struct mappings){.memory = -1};
    int result = find_mappings(process, file, size, found, err);
    if (result == 0)
        result = found->memory = process_memory_open(process, "mem", flags, err);
    if (result < 0)
        free_mappings(found);
    return result < 0 ? result : 0;
}

static int transfer(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t length,
                    uint8_t *piece)
{
    while (length > 0) {
        size_t part = length < PIECE ? (size_t)length : PIECE;
        ssize_t got = pread(from, piece, part, (off_t)from_at);
        if (got <= 0 || pwrite(to, piece, (size_t)got, (off_t)to_at) != got) {
            if (got == 0)
                errno = EIO;
            return -1;
        }
        length -= (uint64_t)got;
        from_at += (uint64_t)got;
        to_at += (uint64_t)got;
    }
    return 0;
}

/* ---- saving -------------------------------------------------------------------------------- */

struct saving {
    int pagemap, memory, to;
    uint64_t at; /* in `to` */
    uint8_t *piece;
};

static int save_run(struct saving *saving, uint64_t address, const struct run *run)
{
    if (run->length == 0)
        return 0;
    if (pwrite(saving->to, run, sizeof *run, (off_t)saving->at) != sizeof *run)
        return -1;
    saving->at += sizeof *run;
    int result =
        transfer(saving->memory, address, saving->to, saving->at, run->length, saving->piece);
    saving->at += run->length;
    return result;
}

static int save_mapping(struct saving *saving, const struct mapping *mapping)
{
    uint64_t entries[4096];
    struct run run = {0};
    uint64_t pages = mapping->length / PAGE;
    for (uint64_t done = 0; done < pages;) {
        uint64_t wanted = pages - done < 4096 ? pages - done : 4096;
        ssize_t got = pread(saving->pagemap, entries, wanted * sizeof entries[0],
                            (off_t)((mapping->address / PAGE + done) * sizeof entries[0]));
        if (got <= 0 || (size_t)got % sizeof entries[0])
            return -1;
        for (size_t i = 0; i < (size_t)got / sizeof entries[0]; i++, done++) {
            uint64_t offset = mapping->offset + done * PAGE;
            bool own = mapping->is_changed || process_memory_is_own(entries[i]);
            if (own && run.length == 0)
                run.offset = offset;
            if (own)
                run.length += PAGE;
            else if (save_run(saving, mapping->address + run.offset - mapping->offset, &run) < 0)
                return -1;
            else
                run.length = 0;
        }
    }
    return save_run(saving, mapping->address + run.offset - mapping->offset, &run);
}

int pages_save(pid_t process, int memory, size_t size, int to, struct error *err)
{
    struct mappings found;
    int result = open_memory(process, memory, size, O_RDONLY, &found, err);
    if (result < 0)
        return result;
    cleanup_fd int pagemap = process_memory_open(process, "pagemap", O_RDONLY, err);
    cleanup_free uint8_t *piece = xmalloc(PIECE);
    struct saving saving = {.pagemap = pagemap, .memory = found.memory, .to = to, .piece = piece};
    const struct mapping *end = mappings_end(&found);
    result = pagemap < 0 ? -1 : 0;
    for (const struct mapping *at = mappings_begin(&found); result == 0 && at < end; at++) {
        if (save_mapping(&saving, at) < 0)
            result = error_errno(err, errno, "cannot write down the memory of a machine");
    }
    free_mappings(&found);
    return result;
}

/* ---- loading ------------------------------------------------------------------------------- */

static int load_run(const struct mappings *found, const struct run *run, int from, uint64_t at,
                    uint8_t *piece, struct error *err)
{
    if (run->offset > found->length || run->length > found->length - run->offset)
        return error_set(err, ERROR_INVALID, "the saved memory is damaged");
    uint64_t address = mappings_begin(found)->address + run->offset;
    return transfer(from, at, found->memory, address, run->length, piece) == 0
               ? 0
               : error_errno(err, errno, "cannot fill the memory of a machine");
}

int pages_load(pid_t process, int memory, size_t size, int from, struct error *err)
{
    struct mappings found;
    int result = open_memory(process, memory, size, O_RDWR, &found, err);
    if (result < 0)
        return result;
    cleanup_free uint8_t *piece = xmalloc(PIECE);
    struct run run;
    uint64_t at = 0;
    ssize_t got = 0;
    while (result == 0 && (got = pread(from, &run, sizeof run, (off_t)at)) == sizeof run) {
        at += sizeof run;
        result = load_run(&found, &run, from, at, piece, err);
        at += run.length;
    }
    free_mappings(&found);
    if (result == 0 && got != 0)
        result = error_set(err, ERROR_INVALID, "the saved memory is damaged");
    return result;
}
