"""Ctrl-C, heeded wherever it comes.

Python makes an exception of it at whatever the main thread is doing. In a callback (of a weak reference, or of the collector)
that exception is printed and dropped, and a library may catch it or turn it into another. So an interrupt is noted as well, and
what can stop asks for the note.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.05  # seconds after which an interrupt that was dropped comes again
_noted = False


def leave_at_once() -> None:
    """Until a command begins, an interrupt ends the process at once; not if nobody heeds it, as under nohup."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def heeded() -> Iterator[None]:
    """While a command lasts, an interrupt is a KeyboardInterrupt that cannot be lost; only after `leave_at_once`."""
    global _noted
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    _noted, hook = False, sys.unraisablehook
    sys.unraisablehook = _dropped
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)
        _noted, sys.unraisablehook = False, hook


def noted() -> bool:
    """Has an interrupt come to the command that runs?"""
    return _noted


def check() -> None:
    """A place where a command can stop: KeyboardInterrupt if an interrupt has come, whatever became of its exception."""
    if _noted:
        raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing is begun, so nothing needs tidying up; an exception could be swallowed or turned into another by an import."""
    os.write(2, b"crescendo: stopped\n")
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    raise KeyboardInterrupt


def _dropped(what: "sys.UnraisableHookArgs") -> None:
    """What was raised in a callback, from which it cannot spread: an interrupt comes again when the callback is over."""
    if what.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(what)
        return
    import threading

    again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()
