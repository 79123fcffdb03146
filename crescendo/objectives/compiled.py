"""Compilation of the loops: without Python's lock, cached on disk between processes, with strict IEEE arithmetic.

Loaded on first use, since numba takes longer to load than most runs take. A kernel and its helpers must be in one
file: numba checks only the kernel's own file to decide if its cache is up to date.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function to machine code, one version per combination of array types, on the first call."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
