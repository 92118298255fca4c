"""Runs a command on a terminal of 40 rows and 100 columns and prints what it shows.

terminal.py [--when TEXT (--type KEYS | --resize ROWSxCOLS)]... -- COMMAND...

Each step waits until TEXT has appeared after the step before. Ends with the command's exit code.
"""
import fcntl
import os
import pty
import signal
import struct
import sys
import termios


def steps_and_command(words):
    steps = []
    while words[0] != "--":
        flag, text, action, value = words[:4]
        assert flag == "--when"
        steps.append((text.encode(), action, value))
        words = words[4:]
    return steps, words[1:]


def set_size(terminal, rows, cols):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def act(terminal, process, action, value):
    if action == "--type":
        os.write(terminal, value.encode().decode("unicode_escape").encode("latin-1"))
    else:
        set_size(terminal, *map(int, value.split("x")))
        os.kill(process, signal.SIGWINCH)


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody has the other side open any more
        return b""


def main():
    steps, command = steps_and_command(sys.argv[1:])
    process, terminal = pty.fork()
    if process == 0:
        set_size(0, 40, 100)
        os.execvp(command[0], command)
    seen = b""
    while piece := read(terminal):
        sys.stdout.buffer.write(piece.replace(b"\r\n", b"\n"))
        sys.stdout.buffer.flush()
        seen += piece
        while steps and steps[0][0] in seen:
            text, action, value = steps.pop(0)
            seen = seen.split(text, 1)[1]
            act(terminal, process, action, value)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


main()
