/*
 * A frozen process: QEMU with a machine that stands still, as a file that other processes become
 * it from (inside/thaw.c). A machine that is emulated has then everything translated already, and
 * shares that with its twins. The file begins with these tables, one behind the other; whole pages
 * follow.
 *
 * Only where processors are emulated, for the kernel's part of a machine cannot be written down
 * like this, and only on x86-64.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FROZEN_MAGIC 0x316e657a6f726621ull
/* In place of it: it was tried, and cannot be done. */
#define FROZEN_NOT 0x746f6e6e657a6f21ull
#define FROZEN_PAGE 4096ull
/* Registers beyond the general ones: room for them, for a mark behind them, and what there was of
 * them before XSAVE. */
#define FROZEN_XSTATE 16384
#define FROZEN_XSTATE_END 64
#define FROZEN_XSTATE_OLD 512
#define FROZEN_CLOCK_PARTS 4
#define FROZEN_THREADS_MAX 72
/* Below this address is what thaws it. */
#define FROZEN_LOWEST 0x40000000ull

/* Numbers of the descriptors that a process to become it is given. */
enum frozen_given {
    FROZEN_QMP = 3,
    FROZEN_AGENT,
    FROZEN_CONSOLE,
    FROZEN_IMAGE,
    FROZEN_DISK,
    FROZEN_OVERLAY,
    FROZEN_KEPT,
    FROZEN_MEMORY,
    FROZEN_SELF,
    FROZEN_READY, /* a byte is written here when everything went well */
    FROZEN_GIVEN_END,
};

/* A file of the host that is mapped, such as a library; it must be the same one still. */
struct frozen_file {
    uint64_t inode, size, changed_s, changed_ns;
    uint64_t name; /* offset in names */
};

static inline bool frozen_is_file(const struct frozen_file *file, const struct stat *status)
{
    return status->st_ino == file->inode && (uint64_t)status->st_size == file->size &&
           (uint64_t)status->st_mtim.tv_sec == file->changed_s &&
           (uint64_t)status->st_mtim.tv_nsec == file->changed_ns;
}

enum frozen_source { FROZEN_OF_NOTHING = -1, FROZEN_OF_SELF = -2, FROZEN_OF_MEMORY = -3 };

/* A mapping. Later ones may lie over earlier ones. */
struct frozen_mapping {
    uint64_t address, length, offset;
    int32_t source; /* number of a file, or enum frozen_source */
    uint32_t protection;
};

enum frozen_kind {
    FROZEN_IS_GIVEN,  /* value: enum frozen_given */
    FROZEN_IS_EVENT,  /* value: its count */
    FROZEN_IS_EPOLL,  /* that waits for nothing */
    FROZEN_IS_SIGNAL, /* value: the signals */
    FROZEN_IS_FOLDER, /* value: its name, offset in names */
};

struct frozen_descriptor {
    int32_t number;
    uint32_t kind;
    uint64_t value;
    uint64_t flags;
};

struct frozen_thread {
    uint64_t registers[18]; /* r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags */
    uint64_t fs_base;
    uint64_t signals; /* blocked ones */
    uint64_t robust_list, robust_length;
    uint64_t rseq, rseq_length, rseq_signature;
    uint64_t number_at; /* where the C library keeps its number */
    uint64_t number;    /* in its own process namespace */
    uint64_t xstate_length;
    uint8_t xstate[FROZEN_XSTATE] __attribute__((aligned(64)));
};

struct frozen {
    uint64_t magic;
    char boot[40];          /* clocks go on from here only while the host runs */
    uint64_t length;        /* of the whole file */
    uint64_t tables_length; /* from its beginning */
    uint64_t ignored;       /* signals */
    /* What the kernel maps by itself: its code for reading clocks, and pages of data before it. */
    uint64_t clock_code;
    struct {
        uint64_t address, length;
    } clock_parts[FROZEN_CLOCK_PARTS];
    uint64_t clock_part_count;
    uint64_t file_count, mapping_count, descriptor_count, thread_count;
    uint64_t files, mappings, descriptors, threads, names; /* offsets */
};
