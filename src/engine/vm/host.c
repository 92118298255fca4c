#include "engine/vm/host.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
/* Bits of leaves 1 and 0x80000001. */
#define HAS_VMX (1u << 5)
#define HAS_SVM (1u << 2)
#define QEMU_PROGRAM "qemu-system-x86_64"
#else
#error "the vm engine knows x86_64 only"
#endif

char *host_qemu(void)
{
    const char *chosen = getenv("MSB_QEMU");
    return process_find(chosen && chosen[0] ? chosen : QEMU_PROGRAM);
}

/* Leaves of CPUID that tell what processor it is and what it can do, by the registers that do not
 * differ from one core to the next: EAX, EBX, ECX, EDX from the lowest bit on. */
static const struct {
    unsigned leaf, part, registers;
} identity[] = {
    {0x0, 0, 0xe},        /* vendor */
    {0x1, 0, 0xd},        /* family, model, stepping, features */
    {0x7, 0, 0xe},        /* features */
    {0x7, 1, 0xf},        /* features */
    {0xd, 0, 0xd},        /* states that XSAVE knows */
    {0xd, 1, 0xd},        /* …and how */
    {0x80000001, 0, 0xc}, /* features */
    {0x80000008, 0, 0x3}, /* sizes of addresses, features */
    {0x8000000a, 0, 0x8}, /* what SVM can do */
};

/* Says of each leaf that the processor has what its registers hold. */
void host_describe_processor(struct buf *out)
{
    for (size_t i = 0; i < sizeof identity / sizeof *identity; i++) {
        unsigned values[4] = {0};
        __get_cpuid_count(identity[i].leaf, identity[i].part, &values[0], &values[1], &values[2],
                          &values[3]);
        for (unsigned j = 0; j < 4; j++) {
            if (identity[i].registers & 1u << j)
                buf_printf(out, "cpuid %x.%u.%u %x\n", identity[i].leaf, identity[i].part, j,
                           values[j]);
        }
    }
    struct utsname kernel;
    uname(&kernel);
    buf_printf(out, "host %s %s\n", kernel.release, kernel.version);
}

static bool processor_virtualises(void)
{
    unsigned eax, ebx, ecx = 0, edx, more = 0;
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    __get_cpuid(0x80000001, &eax, &ebx, &more, &edx);
    return ecx & HAS_VMX || more & HAS_SVM;
}

/*
 * An open /dev/kvm is not enough: without vmx or svm it may be an emulation of virtualisation
 * that is far slower than QEMU's own translator, and with them somebody else may have taken the
 * processor's part of it.
 */
bool host_kvm_usable(const char **why)
{
    cleanup_fd int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    *why = "";
    if (fd < 0)
        *why = file_exists("/dev/kvm") ? "/dev/kvm may not be opened by this user"
                                       : "there is no /dev/kvm";
    else if (!processor_virtualises())
        *why = "the processor shows neither vmx nor svm";
    else {
        cleanup_fd int machine = ioctl(fd, KVM_CREATE_VM, 0);
        if (machine < 0)
            *why = "/dev/kvm opens, but no machine can be created with it";
    }
    return !**why;
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
