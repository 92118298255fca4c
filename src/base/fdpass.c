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
    } control = {.header = {.cmsg_len = (socklen_t)CMSG_LEN(count * sizeof *fds),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof *fds);
        message.msg_control = &control;
        message.msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof *fds);
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

int fdpass_pair(int ends[2])
{
    const int on = 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    return 0;
}

bool fdpass_read_sender(int socket, struct ucred *sender)
{
    char byte;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof *sender)];
    } control = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(sender, CMSG_DATA(header), sizeof *sender);
    return true;
}
