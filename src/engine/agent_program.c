#include "engine/agent_program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/embed.h"
#include "base/file.h"
#include "base/mem.h"

EMBED(agent_binary, "msb-agent");

const uint8_t *agent_program(size_t *size)
{
    *size = EMBED_SIZE(agent_binary);
    return agent_binary_begin;
}

int agent_program_seal(struct error *err)
{
    size_t size;
    const uint8_t *bytes = agent_program(&size);
    cleanup_fd int fd = memfd_create("msb-agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || file_write_all(fd, bytes, size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return error_errno(err, errno, "cannot put the agent into memory");
    return steal_fd(&fd);
}
