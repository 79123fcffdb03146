"""Child processes for tests: forked from a process with one thread, never from pytest's own.

JAX, gRPC and BLAS run threads in pytest's process. A fork copies their locks without the threads that would release them, so
its child may wait for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
LONGEST = 120.0  # seconds after which a child that should have ended, or said something, counts as stuck

_PRELOADED = ["tests.single_thread"]


def preload(*modules: str) -> None:
    """Import these once, in the process that children are forked from. It begins with the first child, so call this on import."""
    _PRELOADED.extend(module for module in modules if module not in _PRELOADED)
    CONTEXT.set_forkserver_preload(_PRELOADED)


def run(target: Callable[..., object], *args: Any) -> int:
    """The exit code of a child that calls a function of a module: 1 if it raised, or minus the signal that killed it."""
    with started(target, *args) as child:
        return exit_code(child)


@contextmanager
def started(target: Callable[..., object], *args: Any) -> Iterator[BaseProcess]:
    """A child at work, which does not outlive the block."""
    child = CONTEXT.Process(target=_live, args=(target, args))
    child.start()
    try:
        yield child
    finally:
        child.kill()
        child.join()


def exit_code(child: BaseProcess) -> int:
    """Wait for the end of a child."""
    child.join(LONGEST)
    assert child.exitcode is not None, f"a child is stuck: it has not ended after {LONGEST:.0f} s"
    return child.exitcode


def next_message(reader: Connection) -> bytes | None:
    """What a child says next through a pipe; None once it has ended."""
    assert reader.poll(LONGEST), f"a child is stuck: it has said nothing for {LONGEST:.0f} s"
    try:
        return reader.recv_bytes()
    except EOFError:
        return None


def threads_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def _live(target: Callable[..., object], args: tuple[Any, ...]) -> None:
    """A child's whole life. It leaves without the interpreter's farewell, which would do disk work of its own."""
    try:
        assert threads_of(os.getppid()) == 1, "what is preloaded for the children has started threads"
        target(*args)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


preload()
