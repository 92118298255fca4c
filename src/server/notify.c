#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

/* A name that begins with @ is an abstract one. */
void notify_ready(void)
{
    static const char message[] = "READY=1";
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!name || (name[0] != '/' && name[0] != '@') || strlen(name) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, name, strlen(name));
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0)
        log_warn("cannot tell %s that the server is ready: %s", name, strerror(errno));
}
