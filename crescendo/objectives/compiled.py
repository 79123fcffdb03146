"""How the loops are compiled: no Python lock while they run, kept on disk between processes, IEEE arithmetic as written.

Loaded on first use, since numba takes longer to load than most runs take. A kernel and the helpers it calls stand in one
file: numba checks only the file of the kernel itself when it decides whether what it kept on disk is still true.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function as machine code, one version per combination of array types, made when first called."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
