/* Descriptors that travel over unix sockets beside a few bytes. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Sends the bytes as one message, with fd unless it is -1. 0, or -1 with errno set. */
int fdpass_send(int socket, const void *bytes, size_t length, int fd);
/* The same with several, at most FDPASS_MAX. */
#define FDPASS_MAX 16
int fdpass_send_all(int socket, const void *bytes, size_t length, const int *fds, size_t count);
/* The number of bytes received; *fd is -1 when none came along. */
ssize_t fdpass_receive(int socket, void *bytes, size_t size, int *fd);
