"""Whose code something is, and which names outside of it a function uses: `pristine` follows a user's own code alone."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from crescendo.objectives.own_code import is_ours

_OF_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME"}
UNSEEN = frozenset({"eval", "exec", "globals", "__import__"})  # with these, code reaches names that it does not say


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a file is of this package, of Python or of an installed library; code without a file is the user's.

    >>> is_library(dis.__file__), is_library("models/own.py"), is_library("<string>")
    (True, False, False)
    """
    if file.startswith("<"):
        return file.startswith("<frozen")
    return is_ours(file)


def is_library_module(module: ModuleType) -> bool:
    """Whether a module is no code of the user's: one without a file is built into Python."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    return is_library(str(file))


def is_library_class(kind: type) -> bool:
    """Whether a class is what the library that it names has under its name: a user's file may be called as a library is."""
    found: Any = sys.modules.get(kind.__module__)
    if found is None or not is_library_module(found):
        return False
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind or not kind.__flags__ & (1 << 9)  # a type that was not made by running code


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> frozenset[str]:
    """The globals that a function and the functions within it read, write or delete.

    >>> sorted(global_names(compile("lambda x: len(x) + seen.count", "", "eval")))
    ['len', 'seen']
    """
    return frozenset(
        str(step.argval) for part in _parts(code) for step in dis.get_instructions(part) if step.opname in _OF_GLOBALS
    )


@lru_cache(maxsize=4096)
def all_names(code: CodeType) -> frozenset[str]:
    """The same with every attribute and module that the code names."""
    return frozenset(name for part in _parts(code) for name in part.co_names)


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
