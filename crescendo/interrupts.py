"""Interrupts: makes sure that Ctrl-C stops a command, wherever it arrives.

Python raises KeyboardInterrupt at any point of the main thread. In a callback (of a weak reference or of the garbage collector)
Python prints and drops the exception, and a library may catch it or turn it into another. So the handler also notes the
interrupt, and commands check for the note where they can stop.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.05  # seconds after which a dropped interrupt is raised again
_noted = False


def leave_at_once() -> None:
    """Let an interrupt end the process at once until a command begins, unless interrupts are ignored, as in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


@contextmanager
def heeded() -> Iterator[None]:
    """During a command, turn an interrupt into a KeyboardInterrupt that cannot be lost. Works only after `leave_at_once`."""
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
    """Return whether the running command has been interrupted."""
    return _noted


def check() -> None:
    """Raise KeyboardInterrupt if the command has been interrupted, even if the first exception was lost."""
    if _noted:
        raise KeyboardInterrupt


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit at once: there is nothing to clean up yet, and an import could swallow an exception or turn it into another."""
    os.write(2, b"crescendo: stopped\n")
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _noted
    _noted = True
    raise KeyboardInterrupt


def _dropped(what: "sys.UnraisableHookArgs") -> None:
    """Handle an exception raised in a callback, from which it cannot propagate: raise an interrupt again after the callback."""
    if what.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(what)
        return
    import threading

    again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    again.daemon = True
    again.start()
