/* What travels over unix sockets beside a few bytes: descriptors, and who the sender is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Sends the bytes as one message, with fd unless it is -1. 0, or -1 with errno set. */
int fdpass_send(int socket, const void *bytes, size_t length, int fd);
/* The same with several, at most FDPASS_MAX. */
#define FDPASS_MAX 16
int fdpass_send_all(int socket, const void *bytes, size_t length, const int *fds, size_t count);
/* The number of bytes received; *fd is -1 when none came along. */
ssize_t fdpass_receive(int socket, void *bytes, size_t size, int *fd);

/* Two connected sockets; the kernel tells the first who writes to the second. 0, or -1 with errno
 * set. */
int fdpass_pair(int ends[2]);
/* Who sent the byte that waits at the first of them; false when there is none. Does not wait. */
bool fdpass_read_sender(int socket, struct ucred *sender);
