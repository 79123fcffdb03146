"""A user's own objective, named in a run file as ``kind = "file.py:Name"``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from crescendo.errors import ConfigError

NEEDED = ("size", "initial", "gradient", "evaluate")


def load_objective(kind: str, features: int, options: dict[str, Any]) -> Any:
    """Run the file, call ``Name(features, **options)`` and look whether the result can be learned."""
    path, _, name = kind.rpartition(":")
    module = _module(Path(path))
    maker = getattr(module, name, None)
    if maker is None:
        names = ", ".join(sorted(word for word, thing in vars(module).items() if _defined_in(thing, module))) or "none"
        raise ConfigError(f"objective.kind: {path} has no {name}; it defines {names}")
    if not callable(maker):
        raise ConfigError(
            f"objective.kind: {name} in {path} is a {type(maker).__name__}; it must be a class or function"
        )
    try:
        made = maker(features, **options)
    except Exception as error:
        raise ConfigError(f"objective.kind: {name}({_call(features, options)}) failed: {_last(error, path)}") from error
    missing = [word for word in NEEDED if not hasattr(made, word)]
    if missing:
        raise ConfigError(
            f"objective.kind: {name} has no {' and no '.join(missing)}; an objective needs {', '.join(NEEDED)}"
        )
    return made


def _module(path: Path) -> Any:
    if not path.is_file():
        raise ConfigError(f"objective.kind: there is no file {path}; the path is seen from the run file's folder")
    name = f"crescendo_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"objective.kind: {path} cannot be imported: {_last(error, str(path))}") from error
    return module


def _defined_in(thing: object, module: Any) -> bool:
    return bool(getattr(thing, "__module__", None) == module.__name__)


def _call(features: int, options: dict[str, Any]) -> str:
    return ", ".join([str(features), *(f"{name}={value!r}" for name, value in options.items())])


def _last(error: Exception, path: str) -> str:
    """The error with the last line of the user's file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}{f' in line {line}' if line else ''}: {reason}"
