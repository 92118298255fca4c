#include "base/loopback.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/mem.h"

void loopback_bring_up(void)
{
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo"};
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return;
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    ioctl(fd, SIOCSIFFLAGS, &request);
}
