#include "agent/wires.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

int wires_open(struct wires *wires, struct error *err)
{
    int messages[2];
    struct spawn_pipes pipes;
    if (pipe2(messages, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect an interpreter");
    if (spawn_pipes_open(&pipes, err) < 0) {
        close(messages[0]);
        close(messages[1]);
        return -1;
    }
    fcntl(messages[0], F_SETFL, O_NONBLOCK);
    *wires = (struct wires){
        .ours = {pipes.ours[1], pipes.ours[2], pipes.ours[0], messages[0]},
        .theirs = {pipes.theirs[1], pipes.theirs[2], pipes.theirs[0], messages[1]},
    };
    return 0;
}

void wires_close_ours(const struct wires *wires)
{
    for (int i = 0; i < WIRE_COUNT; i++)
        fd_close(wires->ours[i]);
}

void wires_close_theirs(const struct wires *wires)
{
    for (int i = 0; i < WIRE_COUNT; i++)
        fd_close(wires->theirs[i]);
}
