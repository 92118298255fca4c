"""Copies of the warm interpreter: a zygote, which runs no code, and spares for contexts to come."""
import _socket
import os

FDS_MAX = 8
BYTES_MAX = 4096
link = None  # to the agent


def connect(fd):
    global link
    try:
        link = driver.channel._move(fd)
    except OSError:
        pass  # nobody wants a zygote


def copy():
    """True in a copy of this process that is no child of it, with a session of its own."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    if os.fork():
        os._exit(0)
    os.setsid()
    return True


def leave_zygote(first_call):
    """True in this process, once it has left a zygote behind; False in the contexts of that."""
    global link
    if link is None:
        return True
    driver.copying = True
    is_zygote = copy()
    if is_zygote:
        driver.channel.close()
        for fd in (1, 2):
            os.dup2(0, fd)
        wait_for_work(first_call)
    driver.copying = False
    os.close(link)
    link = None
    return not is_zygote


def serve_jails(payload):
    """This process is the zygote, outside of all jails; comes back in each spare, inside of one."""
    account, _, first_call = payload.partition(b"\0")
    jails = driver.part("jails")

    def enter(control):
        os.close(link)
        return jails.enter(control, *map(int, account.split()))

    driver.copying = True
    driver.channel.close()
    wait_for_work(first_call, enter)
    driver.copying = False


def wait_for_work(first_call, enter=None):
    """Comes back in each spare; the zygote itself stays until the agent lets go of it."""
    announce(link)
    while True:
        _, fds = receive(link)
        if copy():
            try:
                rehearse(first_call)
                become_context(*(enter(*fds) if enter else fds))
            except OSError:
                os._exit(1)  # it is not wanted any more
            return
        for fd in fds:
            os.close(fd)


def rehearse(first_call):
    """Memory that calls write to is shared with the zygote, until it is written to first."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    driver.channel.open(os.dup(nowhere), nowhere)
    driver.adopt(b"0" * 64 + b"\0")
    driver.rehearse(first_call)
    driver.channel.close()


def announce(fd):
    """The agent learns from the kernel who says this."""
    os.write(fd, b"c")


def receive(fd):
    """A message with descriptors."""
    connection = _socket.socket(fileno=fd)
    data, control, flags, address = connection.recvmsg(BYTES_MAX, _socket.CMSG_SPACE(4 * FDS_MAX))
    connection.detach()
    if not data:
        os._exit(0)
    return data, list(memoryview(control[0][2]).cast("i"))


def become_context(stdout, stderr, commands, messages, report):
    """The last one is where a spare says that it is there."""
    for fd, place in ((stdout, 1), (stderr, 2)):
        os.dup2(fd, place)
        os.close(fd)
    driver.channel.open(commands, messages)
    announce(report)
    os.close(report)
