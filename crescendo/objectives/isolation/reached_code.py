"""Ownership of code, and the outside names that a function uses: `pristine` follows only the user's own code."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from types import CodeType, ModuleType
from typing import Any

from crescendo_dp.own_code import is_ours

_OF_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME"}
_FRAMEWORKS = sys.stdlib_module_names | {
    *("crescendo", "numpy", "scipy", "pandas", "sklearn", "torch", "torchvision", "torchaudio", "transformers"),
    *("jax", "jaxlib", "flax", "equinox", "haiku", "optax", "numba"),
}
_UNSEEN = frozenset(
    {"eval", "exec", "globals", "__import__"}
)  # with these, code reaches names that it does not spell out


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Return True for a file of this package, of Python or of an installed library; code without a file is the user's.

    >>> is_library(dis.__file__), is_library("models/own.py"), is_library("<string>")
    (True, False, False)
    """
    if file.startswith("<"):
        return file.startswith("<frozen")
    return is_ours(file)


def is_library_module(module: ModuleType) -> bool:
    """Return True if a module is not the user's code; a module without a file is built into Python."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    return is_library(str(file))


def is_library_class(kind: type) -> bool:
    """Return True if the library named by a class has this class under its name: a user's file may share a library's name."""
    found: Any = sys.modules.get(kind.__module__)
    if found is None or not is_library_module(found):
        return False
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind or not kind.__flags__ & (1 << 9)  # a type that was not made by running code


def package(module: str | None) -> str:
    """Return the outermost package of a module."""
    return (module or "").partition(".")[0]


def packages_of(root: Any) -> set[str]:
    """Return the packages of a model's code, which count as the user's even if installed; frameworks do not.

    >>> packages_of(dis.Bytecode("1")), packages_of(type("Model", (), {"__module__": "clinic.models"})())
    (set(), {'clinic'})
    """
    kinds = type.mro(root) if isinstance(root, type) else type(root).__mro__
    named = {package(getattr(root, "__module__", None)), *(package(kind.__module__) for kind in kinds)}
    return named - _FRAMEWORKS - {""}


@lru_cache(maxsize=4096)
def global_names(code: CodeType) -> frozenset[str]:
    """Return the globals that a function and its inner functions read, write or delete.

    >>> sorted(global_names(compile("lambda x: len(x) + seen.count", "", "eval")))
    ['len', 'seen']
    """
    return frozenset(
        str(step.argval) for part in _parts(code) for step in dis.get_instructions(part) if step.opname in _OF_GLOBALS
    )


@lru_cache(maxsize=4096)
def all_names(code: CodeType) -> frozenset[str]:
    """Return the same plus every attribute and module that the code names."""
    return frozenset(name for part in _parts(code) for name in part.co_names)


@lru_cache(maxsize=4096)
def stored_names(code: CodeType) -> frozenset[str]:
    """Return the attributes that a function and its inner functions set or delete."""
    return frozenset(
        str(step.argval)
        for part in _parts(code)
        for step in dis.get_instructions(part)
        if step.opname in ("STORE_ATTR", "DELETE_ATTR")
    )


def unseen_by(code: CodeType, names: Mapping[str, Any]) -> str | None:
    """Return the name by which a function can reach unnamed things, or None."""
    if found := _UNSEEN & (global_names(code) - names.keys()):
        return min(found)
    if "import_module" in all_names(code):
        return "import_module"
    if "modules" in all_names(code) and any(names.get(name) is sys for name in global_names(code)):
        return "sys.modules"
    return None


def imported_modules(code: CodeType, package: str | None) -> list[ModuleType]:
    """Return the modules that a function imports when it runs; import a user's own now, to know its initial state."""
    found = (_loaded(name) for name in _imported(code, package))
    return [module for module in found if module is not None]


def _imported(code: CodeType, package: str | None) -> Iterator[str]:
    """Yield the full names of modules, and of the names imported from them, which may be modules too."""
    for part in _parts(code):
        steps = list(dis.get_instructions(part))
        for k, step in enumerate(steps):
            if step.opname != "IMPORT_NAME":
                continue
            level, wanted = (one.argval for one in steps[k - 2 : k])
            try:
                name = resolve_name("." * level + step.argval, package)
            except ImportError:
                continue  # and so will the function's own
            yield from (name[:end] for end in (*_dots(name), len(name)))
            yield from (f"{name}.{one}" for one in wanted or ())


def _dots(name: str) -> Iterator[int]:
    return (place for place, letter in enumerate(name) if letter == ".")


def _loaded(name: str) -> ModuleType | None:
    """Return a loaded module, or load a user's own."""
    if name not in sys.modules:
        try:
            spec = find_spec(name)
            if spec is None or spec.origin is None or not spec.has_location or is_library(spec.origin):
                return None
            import_module(name)
        except Exception:  # not a module, or a module that fails: the function will get the same error
            return None
    return sys.modules.get(name)


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
