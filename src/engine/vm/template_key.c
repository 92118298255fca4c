#include "engine/vm/template_key.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/vm/host.h"
#include "engine/vm/initramfs.h"

/* Raised when the machine's hardware or the way templates are made changes. */
#define LAYOUT 1

static char *hex_digest(const void *bytes, size_t length)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_Digest(bytes, length, digest, &size, EVP_sha256(), NULL);
    char *text = xmalloc(2 * TEMPLATE_KEY_BYTES + 1);
    for (size_t i = 0; i < TEMPLATE_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

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
    cleanup_free char *agent_digest = hex_digest(agent, agent_size);

    cleanup_buf struct buf facts = {0};
    buf_printf(&facts, "layout %d\nimage %s\nlanguage %s\nagent %s\naccelerator %s\n", LAYOUT,
               spec->image_digest, spec->language ? spec->language : "-", agent_digest,
               accelerator);
    buf_printf(&facts, "user %s\nworkdir %s\n", spec->user ? spec->user : "-",
               spec->workdir ? spec->workdir : "-");
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        buf_printf(&facts, "env %s\n", spec->env[i]);
    buf_printf(&facts, "cpus %u\nmemory %u\ndisk %u\n", spec->cpus, spec->memory_mb, spec->disk_mb);
    int result = add_file(&facts, "qemu", qemu, err);
    if (result == 0)
        result = add_file(&facts, "kernel", kernel->vmlinux, err);
    if (result == 0)
        *key = hex_digest(buf_data(&facts), buf_length(&facts));
    return result;
}
