#include "base/fdpass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

int fdpass_send_all(int socket, const void *bytes, size_t length, const int *fds, size_t count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(count * sizeof *fds),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof *fds);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof *fds);
    }
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent >= 0 && (size_t)sent < length)
        errno = EPIPE;
    return sent == (ssize_t)length ? 0 : -1;
}

int fdpass_send(int socket, const void *bytes, size_t length, int fd)
{
    return fdpass_send_all(socket, bytes, length, &fd, fd >= 0);
}

ssize_t fdpass_receive(int socket, void *bytes, size_t size, int *fd)
{
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    union control control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return got;
}
