"""A user's own code that raised: one sentence with the last line of its traceback and the line of the user's file."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from typing import Any

from crescendo_dp.errors import OwnCodeError

_LONGEST = 300  # characters of what the code said
_PACKAGES = ("crescendo", "crescendo_dp")  # whose lines are not the user's
_LIBRARIES = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")})
_INSTALLED = ("/site-packages/", "/dist-packages/")  # of another environment that this one sees
_TYPED_IN = ("<stdin>", "<ipython")


def own_code_failed(what: str, error: BaseException, where: str | None = None) -> OwnCodeError:
    """Return the error to raise ``from`` the exception of the code. ``where`` names the place if the code was not reached.

    >>> try:
    ...     [][3]
    ... except IndexError as error:
    ...     print(own_code_failed("Mean.gradient failed with", error))
    Mean.gradient failed with IndexError: list index out of range
    """
    place = user_line(error) or where
    return OwnCodeError(f"{what} {last_line(error)}{f' ({place})' if place else ''}")


def last_line(error: BaseException) -> str:
    """Return type and message on one line, cut short: some libraries write pages.

    >>> last_line(ValueError("no\\nluck")), last_line(KeyError())
    ('ValueError: no luck', 'KeyError')
    """
    says = error.msg if isinstance(error, SyntaxError) else str(error)
    text = " ".join(f"{type(error).__name__}: {says}".split()).removesuffix(":")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def user_line(error: BaseException) -> str | None:
    """Return the innermost line of the user's files on the way to the error, with its code; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno and not is_ours(error.filename):
        return _line(error.filename, error.lineno, error.text or "")
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in frames if not is_ours(file)]
    if not own:
        return None
    file, line = own[-1]
    return _line(file, line, linecache.getline(file, line))


def _line(file: str, line: int, code: str) -> str:
    code = " ".join(code.split())
    return f"{file}, line {line}{f': {code}' if 0 < len(code) <= 100 else ''}"


def is_ours(file: str) -> bool:
    """A file of this package, or of Python and its libraries, or no file at all."""
    if any(part in file for part in _INSTALLED):
        return True
    return file.startswith((*_own_folders(), *_LIBRARIES)) or (file.startswith("<") and not file.startswith(_TYPED_IN))


def _own_folders() -> tuple[str, ...]:
    loaded = (sys.modules.get(name) for name in _PACKAGES)
    return tuple(f"{folder}/" for module in loaded for folder in getattr(module, "__path__", ()))


def defined_at(owner: Any, method: str) -> str | None:
    """Where a method of the user's begins, for a call that did not fit it; None where that is no Python code of theirs."""
    code = getattr(getattr(owner, method, None), "__code__", None)
    return None if code is None or is_ours(code.co_filename) else f"{code.co_filename}, line {code.co_firstlineno}"
