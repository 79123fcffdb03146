"""System calls used by the network and the storage: time, threads, randomness, and changes to a disk.

Callers use them as attributes, ``system.monotonic()``, and do not import the names. Each name is the standard library's
function itself; the tests of `tests/network/virtual` replace it by a virtual clock, by threads that take turns or by a disk that
tears and loses unsynced writes, and run the same code. Code that only reads files does not need this module: the virtual disk
simulates writes alone.
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
