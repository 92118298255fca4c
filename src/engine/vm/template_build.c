#include "engine/vm/template_build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/progress.h"
#include "engine/agent_call.h"
#include "engine/vm/first_boot.h"
#include "engine/vm/host.h"
#include "engine/vm/qemu.h"
#include "proto/fields.h"
#include "proto/protocol.h"

/* Generous: a loaded host without hardware virtualisation takes its time. */
#define WARM_MS 300000
#define SNAPSHOT_MS 120000
#define SETTLE_MS 200
#define SPARE_MB 512
#define MEMORY_PIECE (64u * 1024)

const char *const template_files[] = {"ram", "state", "disk", "overlay", NULL};

static int check_space(const char *folder, const struct machine_spec *spec, struct error *err)
{
    uint64_t available = 0;
    uint64_t needed = (uint64_t)(spec->memory_mb + SPARE_MB) << 20;
    int result = folder_free_space(folder, &available, err);
    if (result < 0 || available >= needed)
        return result;
    error_set(err, ERROR_NO_SPACE, "a template needs %" PRIu64 " MB in %s, %" PRIu64 " are free",
              needed >> 20, folder, available >> 20);
    return error_hint(err, "free some space, or set MSB_HOME to a folder on a larger disk");
}

static int make_sparse(const char *folder, const char *name, unsigned size_mb, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size_mb << 20) < 0) {
        error_errno(err, errno, "cannot create %s", path);
        fd_close(fd);
        return -1;
    }
    return fd;
}

static int make_overlay(const char *folder, const struct machine_spec *spec, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/overlay", folder);
    cleanup_free char *size = xasprintf("%uM", spec->disk_mb);
    /* Small clusters: a clone that writes little stays little. */
    char *argv[] = {"qemu-img", "create",           "-q", "-f", "qcow2",
                    "-o",       "cluster_size=64k", path, size, NULL};
    if (process_run(argv, &(struct process_options){0}, err) < 0)
        return error_hint(err, "apt-get install qemu-utils");
    return 0;
}

/* An image from anywhere may have an interpreter that does not work; the rest of it does. */
static int quiesce(const struct machine *machine, struct buf *languages, struct error *err)
{
    int result = agent_call(machine->agent, OP_QUIESCE, languages, WARM_MS, err);
    if (result == 0 || (err->code != ERROR_UNAVAILABLE && err->code != ERROR_MISSING))
        return result;
    log_warn("the template has no warm interpreter: %s", err->message);
    cleanup_buf struct buf none = {0};
    return agent_call(machine->agent, OP_QUIESCE, &none, WARM_MS, err);
}

void template_describe_adoption(const struct machine_spec *spec, const char *name,
                                struct buf *fields)
{
    fields_add_text(fields, TAG_NAME, name);
    fields_add_number(fields, TAG_OUTPUT_LIMIT, 0);
    fields_add_number(fields, TAG_PROCESSES, spec->processes);
    fields_add_number(fields, TAG_OPEN_FILES, spec->open_files);
    if (spec->user)
        fields_add_text(fields, TAG_USER, spec->user);
    if (spec->workdir)
        fields_add_text(fields, TAG_CWD, spec->workdir);
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        fields_add_text(fields, TAG_ENV, spec->env[i]);
}

/*
 * A rehearsal of what every clone does first, so that clones find it done or in memory: adoption
 * with throw-away values, then the first call in the language's context. The clock is left in the
 * distant past on purpose: when a clone gets the time, generators of random numbers that renew
 * themselves after a while (OpenSSL's) do so at once.
 */
static int warm(const struct machine *machine, const struct machine_spec *spec, struct error *err)
{
    static const uint8_t entropy[64];
    cleanup_buf struct buf adoption = {0}, languages = {0};
    fields_add_bytes(&adoption, TAG_ENTROPY, entropy, sizeof entropy);
    template_describe_adoption(spec, "sandbox", &adoption);
    if (spec->language)
        fields_add_text(&languages, TAG_LANGUAGE, spec->language);
    int result = agent_call(machine->agent, OP_ADOPT, &adoption, WARM_MS, err);
    if (result == 0)
        result = quiesce(machine, &languages, err);
    if (result == 0) {
        /* Timers and deferred work of the kernel run out here instead of in every clone. */
        struct pollfd end = {.fd = machine->exit, .events = POLLIN};
        poll(&end, 1, SETTLE_MS);
    }
    return result;
}

/*
 * Written down and ended. The memory is ours already; only the rest is written by QEMU. The machine
 * is not stopped by us first: then its clones run as soon as they have read their state.
 */
static int write_down(struct vm_machine *machine, const char *folder, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/state", folder);
    cleanup_fd int state = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (state < 0)
        return error_errno(err, errno, "cannot create %s", path);
    struct qmp *qmp = &machine->qmp;
    int result = qmp_command(qmp, "migrate-set-capabilities",
                             "{\"capabilities\":[{\"capability\":\"x-ignore-shared\",\"state\":"
                             "true},{\"capability\":\"events\",\"state\":true}]}",
                             -1, SNAPSHOT_MS, err);
    if (result == 0)
        result = qmp_command(qmp, "getfd", "{\"fdname\":\"state\"}", state, SNAPSHOT_MS, err);
    if (result == 0)
        result = qmp_command(qmp, "migrate", "{\"uri\":\"fd:state\"}", -1, SNAPSHOT_MS, err);
    if (result == 0)
        result = qmp_wait_migration(qmp, SNAPSHOT_MS, err);
    if (result == 0)
        result = qmp_command(qmp, "quit", NULL, -1, SNAPSHOT_MS, err);
    if (result == 0) {
        struct pollfd end = {.fd = machine->base.exit, .events = POLLIN};
        poll(&end, 1, SNAPSHOT_MS);
    }
    return result;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

static int save_touched(int to, const uint8_t *bytes, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at += MEMORY_PIECE) {
        size_t length = end - at < MEMORY_PIECE ? end - at : MEMORY_PIECE;
        if (!is_zero(bytes + at, length) &&
            pwrite(to, bytes + at, length, (off_t)at) != (ssize_t)length)
            return -1;
    }
    return 0;
}

/* Pages that were never touched, or are zero again, stay holes. */
static int save_memory(const char *folder, int memory, unsigned size_mb, struct error *err)
{
    cleanup_fd int file = make_sparse(folder, "ram", size_mb, err);
    if (file < 0)
        return file;
    size_t size = (size_t)size_mb << 20;
    uint8_t *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, memory, 0);
    if (bytes == MAP_FAILED)
        return error_errno(err, errno, "cannot map the memory of a machine");
    int result = 0;
    off_t end = 0, begin;
    while (result == 0 && (begin = lseek(memory, end, SEEK_DATA)) >= 0) {
        end = lseek(memory, begin, SEEK_HOLE);
        result = save_touched(file, bytes, (size_t)begin, (size_t)end);
    }
    int reason = errno;
    munmap(bytes, size);
    return result < 0 ? error_errno(err, reason, "cannot write the memory of a template") : 0;
}

static int describe(const char *folder, const struct machine_spec *spec,
                    const struct machine *machine, struct error *err)
{
    json_t *about = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "image", spec->image_digest,
                              "kernel", machine->kernel, "accelerator", machine->accelerator,
                              "cpus", (json_int_t)spec->cpus, "memory_mb",
                              (json_int_t)spec->memory_mb, "disk_mb", (json_int_t)spec->disk_mb);
    for (size_t i = 0; template_files[i]; i++) {
        struct stat status = {0};
        cleanup_free char *path = xasprintf("%s/%s", folder, template_files[i]);
        stat(path, &status);
        json_object_set_new(about, template_files[i], json_integer(status.st_size));
    }
    cleanup_free char *text = json_dumps(about, JSON_INDENT(2));
    json_decref(about);
    cleanup_free char *path = xasprintf("%s/template.json", folder);
    return file_write_atomic(path, text, strlen(text), 0600, err);
}

static unsigned long long elapsed_ms(uint64_t began)
{
    return clock_monotonic_ms() - began;
}

static int boot_and_write(const char *folder, const struct machine_spec *spec,
                          const struct kernel *kernel, const char *accelerator, struct error *err)
{
    const struct first_boot boot = {
        .spec = spec, .kernel = kernel, .accelerator = accelerator, .folder = folder};
    cleanup_fd int memory = -1;
    struct vm_machine *machine = NULL;
    if (first_boot(&boot, &memory, &machine, err) < 0)
        return -1;
    struct machine *base = &machine->base;
    uint64_t began = clock_monotonic_ms();
    progress_detail("warming up");
    int result = warm(base, spec, err);
    log_debug("template: warm after %llu ms", elapsed_ms(began));
    if (result < 0)
        machine_explain(base, err);
    if (result == 0) {
        progress_detail("writing down");
        result = write_down(machine, folder, err);
    }
    if (result == 0)
        result = save_memory(folder, memory, spec->memory_mb, err);
    if (result == 0)
        result = describe(folder, spec, base, err);
    machine_free(base);
    return result;
}

static int build(const char *folder, const struct machine_spec *spec, const struct kernel *kernel,
                 const char *accelerator, struct error *err)
{
    int result = check_space(folder, spec, err);
    if (result == 0)
        result = make_overlay(folder, spec, err);
    if (result < 0)
        return result;
    result = boot_and_write(folder, spec, kernel, accelerator, err);
    if (result < 0 && err->code != ERROR_CANCELLED)
        error_wrap(err, "the template's machine did not come up");
    return result;
}

int template_build(const char *folder, const struct machine_spec *spec, const struct kernel *kernel,
                   const char *accelerator, struct error *err)
{
    const char *why;
    if (!spec->accelerator && file_exists("/dev/kvm") && !host_kvm_usable(&why))
        log_warn("machines are emulated, which is about ten times slower: %s", why);
    progress_begin("Preparing a template (%u CPU, %u MB, %s)", spec->cpus, spec->memory_mb,
                   accelerator);
    int result = build(folder, spec, kernel, accelerator, err);
    progress_end(result == 0);
    return result;
}
