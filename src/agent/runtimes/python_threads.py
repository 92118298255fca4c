"""Ends the threads that an interrupted call has started."""
import sys
import threading
import time

PATIENCE = 5  # seconds; the agent's own is shorter, and replaces the interpreter


def end_all_but(known):
    """Returns when all new threads have ended but daemons, which no program waits for either."""
    for thread in running_but(known):
        raise_exit(thread)
    deadline = time.monotonic() + PATIENCE
    # Not join: an interrupted join makes Python believe that the thread has ended.
    while not all(thread.daemon for thread in running_but(known)) and time.monotonic() < deadline:
        time.sleep(0.02)


def running_but(known):
    alive = sys._current_frames()
    return [thread for thread in threading.enumerate()
            if thread not in known and thread.ident in alive]


def raise_exit(thread):
    """The thread ends as if it called sys.exit(), as soon as it runs Python code."""
    try:
        import ctypes
    except ImportError:
        return
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
