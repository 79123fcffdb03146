"""File of a user's own model, named in a run file as ``kind = "file.py:Name"``: read once, hashed and run."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crescendo.errors import ConfigError, CrescendoError
from crescendo.objectives.nets.net_names import file_of
from crescendo.objectives.own import OwnModel
from crescendo_dp.own_code import defined_at, own_code_failed
from crescendo_dp.python_file import PythonFile, is_named

if TYPE_CHECKING:
    from crescendo.data.records import Records

_LIBRARIES = ("torch", "jax")  # of neural models; a kind may begin with one of them and a colon
OWN_KINDS = ("file.py:Name", *(f"{library}:file.py:Name" for library in _LIBRARIES))


def library_of(kind: str) -> str:
    """Return the library that a kind names; empty for a class with ``initial``, ``gradient`` and ``evaluate``.

    >>> library_of("jax:net.py:Net"), library_of("own.py:Softmax")
    ('jax', '')
    """
    return next((library for library in _LIBRARIES if kind.startswith(f"{library}:")), "")


@dataclass(frozen=True)
class ModelFile(PythonFile):
    """The file of a user's own model, read once: the bytes that were hashed are the bytes that run."""

    library: str = ""  # "torch" or "jax" for a neural model

    @classmethod
    def read(cls, kind: str, folder: Path | None = None, asked: str = "objective.kind") -> Self:
        """Read the file of ``file.py:Name`` or of a built-in network without running it; relative paths start in
        ``folder``.

        ``asked`` is the key or option that names it, for errors.
        """
        kind = file_of(kind)
        library = library_of(kind)
        named = kind.removeprefix(f"{library}:")
        if not is_named(named):
            forms = ", ".join(f'"{form}"' for form in OWN_KINDS[:-1]) + f' or "{OWN_KINDS[-1]}"'
            raise ConfigError(f'{asked} = "{kind}" is not of the form {forms}')
        return replace(super().read(named, folder, asked), library=library)

    @property
    def kind(self) -> str:
        """The model's kind, independent of the file's folder.

        >>> ModelFile(Path("models/own.py"), "Softmax", b"").kind, ModelFile(Path("net.py"), "Net", b"", "torch").kind
        ('own.py:Softmax', 'torch:net.py:Net')
        """
        return f"{self.library}{':' if self.library else ''}{self.path.name}:{self.name}"

    def made(self, data: Records, options: dict[str, Any], signed: bool = False) -> OwnModel:
        """Run the file, make the model for the features of ``data``, and try it on the first of these records.

        ``options`` such as l2 go to the class, which must accept them; ``signed`` as for `OwnModel`.
        """
        if self.library:
            return OwnModel(_neural(self, data, options), data)
        made = self.named()
        return OwnModel(_made(made, self.name, data.features, options) if callable(made) else made, data, signed)


def _neural(file: ModelFile, data: Records, options: dict[str, Any]) -> Any:
    """Return the neural model of a file, to be completed by `OwnModel`. Its library, which the file imports, is checked first."""
    library = file.library
    try:
        neural = importlib.import_module(f"crescendo.objectives.neural.{library}_model")
    except ImportError as error:
        raise ConfigError(
            f"a {library} model needs {library}; install it with pip install 'crescendo-fl[{library}]'"
        ) from error
    try:
        return neural.from_file(file.named(), file.name, data, options)
    except CrescendoError:
        raise
    except Exception as error:
        raise own_code_failed(f"{file.name} could not be made:", error) from error


def _made(make: Any, name: str, features: int, options: dict[str, Any]) -> Any:
    """Call the class with the arguments it accepts: the number of features, and options by name."""
    known = inspect.signature(make).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for option in options:
        if option not in known and not anything:
            raise ConfigError(
                f"objective.{option} is given but {name} takes no {option}; remove that key, or let {name} take {option}"
            )
    try:
        return make(features, **options) if any(p not in options for p in known) else make(**options)
    except CrescendoError:
        raise
    except (Exception, SystemExit) as error:
        raise own_code_failed(f"{name} could not be made:", error, defined_at(make, "__init__")) from error
