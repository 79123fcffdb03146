"""Python file of the user's, named as ``file.py:Name``: read once, so that the bytes that were hashed are the bytes that run."""

from __future__ import annotations

import difflib
import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from crescendo_dp.errors import ConfigError
from crescendo_dp.own_code import own_code_failed


@dataclass(frozen=True)
class PythonFile:
    """A file that was read, and the name to take from it."""

    path: Path
    name: str
    source: bytes = field(repr=False)

    @classmethod
    def read(cls, named: str, folder: Path | None = None, asked: str = "the mechanism") -> Self:
        """Read ``file.py:Name`` without running it, relative to ``folder``; errors call it ``asked``."""
        if not is_named(named):
            raise ConfigError(f'{asked} = "{named}" is not of the form "file.py:Name"')
        file, _, name = named.rpartition(":")
        path = (folder or Path()) / file
        try:
            return cls(path, name, path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(f"{asked} names the file {path}, which does not exist") from None
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise ConfigError(f"{asked} names the file {path}, which cannot be read: {reason}") from None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()

    def named(self) -> Any:
        """Run the file and return the object of that name."""
        module, name = _module(self.path, self.source), self.name
        if not hasattr(module, name):
            near = difflib.get_close_matches(name, [n for n in vars(module) if not n.startswith("_")], 1)
            hint = f"; did you mean {near[0]}?" if near else "; check the name"
            raise ConfigError(f"{self.path.name} has no {name}{hint}")
        return getattr(module, name)


def is_named(text: str) -> bool:
    """Is this of the form ``file.py:Name``?

    >>> is_named("own.py:Mechanism"), is_named("own.py"), is_named("own:Mechanism")
    (True, False, False)
    """
    file, colon, name = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and name.isidentifier()


def _module(path: Path, source: bytes) -> ModuleType:
    """Run the file. The import system may run a cached compilation of an earlier version, so it is not used."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses look their own module up here while it is being read
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # a script that ends itself would end the run without a word
        raise own_code_failed(f"{path} could not be run:", error) from error
    finally:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
    return module
