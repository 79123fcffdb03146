"""Restoring of library settings that a user's own code may change: a lasting setting could reveal a record.

What a library keeps cannot be known in full. These are the settings that model code does change: those of torch,
warnings, decimals, numpy's printing and the environment, and attributes that the code sets on a library's module.
Each is noted only where the code names what changes it.
"""

from __future__ import annotations

import decimal
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from crescendo.objectives.isolation import put_back
from crescendo.objectives.isolation.put_back import Back

_Get: TypeAlias = Callable[[], Any]
_Set: TypeAlias = Callable[[Any], Any]


def settings(names: Collection[str], libraries: Iterable[ModuleType], stored: Collection[str]) -> list[Back]:
    """Note the settings that code with these names may change, where it reaches these libraries and sets these
    attributes.

    >>> before = decimal.getcontext().prec
    >>> (back,) = settings({"getcontext"}, [decimal], {"prec"})[:1]
    >>> decimal.getcontext().prec = 5
    >>> back({})
    >>> decimal.getcontext().prec == before
    True
    """
    found = [_kept(get, put) for by, get, put in (*_of_python(), *_of_torch()) if by & set(names)]
    return found + [put_back.names(vars(one), stored, ()) for one in libraries if stored]


def _kept(get: _Get, put: _Set) -> Back:
    saved = get()

    def back(memo: put_back.Memo) -> None:
        if get() != saved:
            put(saved)

    return back


def _of_python() -> Iterator[tuple[set[str], _Get, _Set]]:
    yield {"getcontext", "setcontext"}, lambda: _context(decimal.getcontext()), _set_context
    yield {"environ", "putenv", "unsetenv"}, lambda: dict(os.environ), _set_environment
    yield {"warnings"}, lambda: list(warnings.filters), _set_filters
    yield {"set_printoptions"}, np.get_printoptions, lambda saved: np.set_printoptions(**saved)
    yield {"seterr"}, np.geterr, lambda saved: np.seterr(**saved)
    yield {"setbufsize"}, np.getbufsize, np.setbufsize
    yield {"setrecursionlimit"}, sys.getrecursionlimit, sys.setrecursionlimit


def _context(now: decimal.Context) -> dict[str, Any]:
    kept = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    return {name: getattr(now, name) for name in kept} | {"flags": dict(now.flags), "traps": dict(now.traps)}


def _set_context(saved: dict[str, Any]) -> None:
    decimal.setcontext(decimal.Context(**{**saved, "flags": dict(saved["flags"]), "traps": dict(saved["traps"])}))


def _set_environment(saved: dict[str, str]) -> None:
    for name in os.environ.keys() - saved.keys():
        del os.environ[name]
    os.environ.update(saved)


def _set_filters(saved: list[Any]) -> None:
    filters: Any = warnings.filters
    filters[:] = saved
    with warnings.catch_warnings():
        pass  # its end clears the cache of the previous filters' decisions


def _of_torch() -> Iterator[tuple[set[str], _Get, _Set]]:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    yield {"set_default_dtype", "set_default_tensor_type"}, torch.get_default_dtype, torch.set_default_dtype
    yield {"set_grad_enabled", "no_grad", "enable_grad"}, torch.is_grad_enabled, torch.set_grad_enabled
    yield (
        {"use_deterministic_algorithms"},
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    )
    yield {"set_num_threads"}, torch.get_num_threads, torch.set_num_threads
    yield (
        {"set_float32_matmul_precision"},
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    )
