#include "engine/vm/template_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/mem.h"
#include "engine/agent_program.h"
#include "engine/vm/host.h"
#include "engine/vm/qemu_command.h"

/* Raised when the way templates are made changes. */
#define LAYOUT 1
#define KEY_LENGTH 32

/* A program or kernel is known by where it is and when it changed; reading it would take longer
 * than starting a machine. */
static int add_file(struct buf *facts, const char *what, const char *path, struct error *err)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return error_errno(err, errno, "cannot look at %s", path);
    buf_printf(facts, "%s %s %jd %jd.%09ld\n", what, path, (intmax_t)status.st_size,
               (intmax_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    return 0;
}

int template_key(const struct machine_spec *spec, const struct kernel *kernel,
                 const char *accelerator, char **key, struct error *err)
{
    cleanup_free char *qemu = host_qemu();
    if (!qemu) {
        error_set(err, ERROR_MISSING, "QEMU is not installed");
        return error_hint(err, "apt-get install qemu-system-x86, or set MSB_QEMU to its path");
    }
    size_t agent_size;
    const uint8_t *agent = agent_program(&agent_size);
    char agent_digest[65], key_digest[65];
    digest_bytes(agent, agent_size, agent_digest);

    cleanup_buf struct buf facts = {0};
    buf_printf(&facts, "layout %d\nimage %s\nlanguage %s\nagent %s\naccelerator %s\n", LAYOUT,
               spec->image_digest, spec->language ? spec->language : "-", agent_digest,
               accelerator);
    buf_printf(&facts, "user %s\nworkdir %s\n", spec->user ? spec->user : "-",
               spec->workdir ? spec->workdir : "-");
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        buf_printf(&facts, "env %s\n", spec->env[i]);
    buf_printf(&facts, "disk %u\nfiles %u\n", spec->disk_mb, spec->files);
    qemu_describe(spec, accelerator, &facts);
    if (strcmp(accelerator, "kvm") == 0)
        host_describe_processor(&facts);
    int result = add_file(&facts, "qemu", qemu, err);
    if (result == 0)
        result = add_file(&facts, "kernel", kernel->vmlinux, err);
    if (result < 0)
        return result;
    digest_bytes(buf_data(&facts), buf_length(&facts), key_digest);
    *key = xstrndup(key_digest, KEY_LENGTH);
    return 0;
}
