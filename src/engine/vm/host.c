#include "engine/vm/host.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define QEMU_PROGRAM "qemu-system-x86_64"
#else
#error "the vm engine knows x86_64 only"
#endif

char *host_qemu(void)
{
    const char *chosen = getenv("MSB_QEMU");
    return process_find(chosen && chosen[0] ? chosen : QEMU_PROGRAM);
}

/* A whole word of the "flags" line. */
static bool processor_has(const char *cpuinfo, const char *flag)
{
    const char *line = strstr(cpuinfo, "\nflags");
    if (!line)
        return false;
    const char *end = strchr(line + 1, '\n');
    size_t length = strlen(flag);
    for (const char *at = line; (at = strstr(at, flag)) && (!end || at < end); at += length) {
        if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0'))
            return true;
    }
    return false;
}

/*
 * An open /dev/kvm is not enough: without vmx or svm it may be an emulation of virtualisation
 * that is far slower than QEMU's own translator.
 */
bool host_kvm_usable(const char **why)
{
    cleanup_fd int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        *why = file_exists("/dev/kvm") ? "/dev/kvm may not be opened by this user"
                                       : "there is no /dev/kvm";
        return false;
    }
    struct error err;
    cleanup_buf struct buf cpuinfo = {0};
    if (file_read("/proc/cpuinfo", 16 << 20, &cpuinfo, &err) < 0) {
        *why = "/proc/cpuinfo cannot be read";
        return false;
    }
    const char *text = buf_text(&cpuinfo);
    if (!processor_has(text, "vmx") && !processor_has(text, "svm")) {
        *why = "the processor shows neither vmx nor svm";
        return false;
    }
    *why = "";
    return true;
}

int host_accelerator(const char *wanted, const char **chosen, struct error *err)
{
    const char *why;
    if (!wanted) {
        *chosen = host_kvm_usable(&why) ? "kvm" : "tcg";
        return 0;
    }
    if (strcmp(wanted, "tcg") == 0) {
        *chosen = "tcg";
        return 0;
    }
    if (strcmp(wanted, "kvm") != 0) {
        error_set(err, ERROR_INVALID, "there is no accelerator \"%s\"", wanted);
        return error_hint(err, "use kvm or tcg, or leave it out to get the best one");
    }
    if (!host_kvm_usable(&why)) {
        error_set(err, ERROR_MISSING, "kvm cannot be used here: %s", why);
        return error_hint(err, "leave the accelerator out, or use tcg");
    }
    *chosen = "kvm";
    return 0;
}

static uint64_t raw_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Counter and clock read as closely together as scheduling allows: the best of a few tries. */
static void read_together(uint64_t *counter, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = raw_ns();
        uint64_t value = __rdtsc();
        uint64_t after = raw_ns();
        if (after - before < best) {
            best = after - before;
            *counter = value;
            *ns = before + (after - before) / 2;
        }
    }
}

unsigned long host_counter_khz(void)
{
    uint64_t counter0, counter1, ns0, ns1;
    read_together(&counter0, &ns0);
    do {
        read_together(&counter1, &ns1);
    } while (ns1 - ns0 < 20000000);
    return (unsigned long)((double)(counter1 - counter0) * 1e6 / (double)(ns1 - ns0));
}
