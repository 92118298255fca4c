#include "agent/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define FOLDER "/trial"
#define ROUNDS 3
#define SMALL_FILES 300
#define PIECE (256u << 10)
/* What the memory hog leaves: enough to work with, too little for a cache of the whole disk. */
#define LEFT_BYTES (48u << 20)

/* A child that works until it is killed. */
static pid_t start(void (*work)(void))
{
    pid_t child = fork();
    if (child != 0)
        return child;
    work();
    _exit(0);
}

static void throw_caches_away(void)
{
    for (;;) {
        int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "3", 1) != 1)
            return;
        close(fd);
    }
}

static void take_memory(void)
{
    struct sysinfo now;
    if (sysinfo(&now) < 0 || now.freeram * now.mem_unit <= LEFT_BYTES)
        return;
    size_t size = now.freeram * now.mem_unit - LEFT_BYTES;
    uint8_t *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    while (memory != MAP_FAILED)
        pause();
}

static bool fill(const char *path, const uint8_t *piece)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    while (write(fd, piece, PIECE) > 0) {
    }
    return errno == ENOSPC && fsync(fd) == 0;
}

static bool write_small(const uint8_t *piece)
{
    for (int i = 0; i < SMALL_FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/%d", i);
        cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        size_t size = (size_t)(i % 16 + 1) * 1000;
        if (fd < 0 || write(fd, piece, size) != (ssize_t)size)
            return false;
        /* Every other one stays for a while, so that free space is in pieces. */
        if (i % 2 == 0 && unlink(path) < 0)
            return false;
    }
    for (int i = 1; i < SMALL_FILES; i += 2) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/%d", i);
        unlink(path);
    }
    return true;
}

static bool work(void)
{
    cleanup_free uint8_t *piece = xmalloc(PIECE);
    memset(piece, 0x5a, PIECE);
    bool good = mkdir(FOLDER, 0700) == 0;
    for (int i = 0; good && i < ROUNDS; i++) {
        good = write_small(piece) && fill(FOLDER "/full", piece) && unlink(FOLDER "/full") == 0;
        fprintf(stderr, "trial: round %d of %d\n", i + 1, ROUNDS);
    }
    return good;
}

bool trial_run(void)
{
    pid_t children[] = {start(take_memory), start(throw_caches_away)};
    bool good = work();
    if (!good)
        fprintf(stderr, "trial: %s\n", strerror(errno));
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    return good;
}
