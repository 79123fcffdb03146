"""The machine as the network and the storage use it: time, threads, chance, and what changes on a disk.

They ask by attribute, ``system.monotonic()``, and keep no name of their own. Each name is the standard library's, with nothing
in between; the tests of `tests/network/virtual` put a virtual clock, threads that take turns and a disk that tears in their
place, and run the same code. What only reads a file is not here: a disk is simulated by what reaches it.
"""

from concurrent.futures import ThreadPoolExecutor
from fcntl import flock
from os import close, fdatasync, fdopen, fsync, ftruncate, pread, pwrite, replace, unlink, urandom
from os import open as open_file
from random import uniform
from shutil import disk_usage
from threading import Condition, Event, Lock, RLock, Thread
from time import monotonic, perf_counter, time

__all__ = [
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Thread",
    "ThreadPoolExecutor",
    "close",
    "disk_usage",
    "fdatasync",
    "fdopen",
    "flock",
    "fsync",
    "ftruncate",
    "monotonic",
    "open_file",
    "perf_counter",
    "pread",
    "pwrite",
    "replace",
    "time",
    "uniform",
    "unlink",
    "urandom",
]
