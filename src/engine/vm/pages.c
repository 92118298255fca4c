#include "engine/vm/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define PAGE 4096u
#define PIECE (1u << 20)
#define MAPPINGS_MAX 64
/* Of an entry of pagemap: where the page is, and whether it still belongs to a file. */
#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define OF_FILE (1ull << 61)

struct mapping {
    uint64_t address, length, offset;
};

struct mappings {
    struct mapping all[MAPPINGS_MAX];
    size_t count;
    int memory; /* of the process */
};

struct run {
    uint64_t offset, length;
};

static int open_of(pid_t process, const char *name, int flags, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    int fd = open(path, flags | O_CLOEXEC);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot open %s", path);
}

static bool read_line(const char *line, ino_t file, struct mapping *mapping)
{
    uint64_t begin, end, offset, inode;
    char rights[8];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64, &begin, &end, rights,
               &offset, &inode) != 5 ||
        inode != file || strcmp(rights, "rw-p") != 0)
        return false;
    *mapping = (struct mapping){.address = begin, .length = end - begin, .offset = offset};
    return true;
}

/* Every part of the file must be mapped once: then these are the machine's memory. */
static int find_mappings(pid_t process, int file, size_t size, struct mappings *found,
                         struct error *err)
{
    struct stat status;
    char line[4352], path[64];
    uint64_t total = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *maps = fopen(path, "re");
    if (!maps || fstat(file, &status) < 0) {
        error_errno(err, errno, "cannot look at the memory of a machine");
        if (maps)
            fclose(maps);
        return -1;
    }
    while (found->count < MAPPINGS_MAX && fgets(line, sizeof line, maps)) {
        if (read_line(line, status.st_ino, &found->all[found->count]))
            total += found->all[found->count++].length;
    }
    fclose(maps);
    return total == size ? 0 : error_set(err, ERROR_IO, "the memory of a machine was not found");
}

static int open_memory(pid_t process, int file, size_t size, int flags, struct mappings *found,
                       struct error *err)
{
    *found = (struct mappings){.memory = -1};
    int result = find_mappings(process, file, size, found, err);
    if (result == 0)
        result = found->memory = open_of(process, "mem", flags, err);
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

static bool is_own(uint64_t entry)
{
    return (entry & SWAPPED) || (entry & (PRESENT | OF_FILE)) == PRESENT;
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
            if (is_own(entries[i]) && run.length == 0)
                run.offset = offset;
            if (is_own(entries[i]))
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
    cleanup_fd int own = found.memory;
    cleanup_fd int pagemap = open_of(process, "pagemap", O_RDONLY, err);
    if (pagemap < 0)
        return pagemap;
    cleanup_free uint8_t *piece = xmalloc(PIECE);
    struct saving saving = {.pagemap = pagemap, .memory = own, .to = to, .piece = piece};
    for (size_t i = 0; result == 0 && i < found.count; i++)
        result = save_mapping(&saving, &found.all[i]);
    return result == 0 ? 0 : error_errno(err, errno, "cannot write down the memory of a machine");
}

/* ---- loading ------------------------------------------------------------------------------- */

static const struct mapping *mapping_of(const struct mappings *found, const struct run *run)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct mapping *at = &found->all[i];
        if (run->offset >= at->offset && run->length <= at->length &&
            run->offset - at->offset <= at->length - run->length)
            return at;
    }
    return NULL;
}

int pages_load(pid_t process, int memory, size_t size, int from, struct error *err)
{
    struct mappings found;
    int result = open_memory(process, memory, size, O_RDWR, &found, err);
    if (result < 0)
        return result;
    cleanup_fd int own = found.memory;
    cleanup_free uint8_t *piece = xmalloc(PIECE);
    struct run run;
    uint64_t at = 0;
    ssize_t got;
    while ((got = pread(from, &run, sizeof run, (off_t)at)) == sizeof run) {
        at += sizeof run;
        const struct mapping *mapping = mapping_of(&found, &run);
        if (!mapping)
            return error_set(err, ERROR_INVALID, "the saved memory is damaged");
        if (transfer(from, at, own, mapping->address + run.offset - mapping->offset, run.length,
                     piece) < 0)
            return error_errno(err, errno, "cannot fill the memory of a machine");
        at += run.length;
    }
    return got == 0 ? 0 : error_set(err, ERROR_INVALID, "the saved memory is damaged");
}
