#include "agent/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"

/* From <linux/tty.h> and <asm/ioctls.h>: opens the slave without a path that could be swapped. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif
#define TTY_GROUP 5

int terminal_open(uint16_t rows, uint16_t cols, const struct account *account, int *master,
                  int *slave, struct error *err)
{
    int locked = 0;
    cleanup_fd int near = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (near < 0 || ioctl(near, TIOCSPTLCK, &locked) < 0)
        return error_errno(err, errno, "cannot make a terminal");
    int far = ioctl(near, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (far < 0)
        return error_errno(err, errno, "cannot open a terminal");
    if (fchown(far, account->uid, TTY_GROUP) < 0 && errno != EPERM) {
        int reason = errno;
        fd_close(far);
        return error_errno(err, reason, "cannot hand over a terminal");
    }
    terminal_resize(near, rows ? rows : 24, cols ? cols : 80);
    *master = steal_fd(&near);
    *slave = far;
    return 0;
}

void terminal_resize(int master, uint16_t rows, uint16_t cols)
{
    struct winsize size = {.ws_row = rows, .ws_col = cols};
    ioctl(master, TIOCSWINSZ, &size);
}

pid_t terminal_foreground(int master)
{
    pid_t group;
    return ioctl(master, TIOCGPGRP, &group) == 0 ? group : -1;
}
