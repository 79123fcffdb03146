"""Shared parts of the commands: common options, errors printed as one sentence, and `--json`."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import select
import sys
import traceback
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from crescendo import interrupts
from crescendo.errors import CrescendoError, Diverged, OwnCodeError
from crescendo.logs.peer_text import cleaned

if TYPE_CHECKING:
    from crescendo.logs import Log

DEBUG = "CRESCENDO_DEBUG"  # set to 1, it prints the traceback before the sentence
PATIENCE = 2.0  # seconds that a last sentence waits for the reader to empty the pipe
OF_PATHS = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG)
OF_DISKS = (errno.ENOSPC, errno.EDQUOT)
LONGEST_SENTENCE = 10_000  # of an error
DIVERGED = 4  # the exit code of a run that diverged or did not learn
RunFile = Annotated[Path, typer.Argument(metavar="FILE.toml", help="The run file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Set a key of the run file; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Certs = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Your folder from `crescendo certs`; needed unless the address is on this machine."
    ),
]


class LogForm(StrEnum):
    """The form of a command's log."""

    words = "words"
    json = "json"


Logs = Annotated[
    LogForm | None,
    typer.Option(
        "--log", help="Log in words or as JSON lines; by default words on a terminal and JSON lines elsewhere."
    ),
]

EXTRAS = {
    "grpc": "network",
    "google": "network",
    "cryptography": "network",
    "pandas": "demo",
    "pyarrow": "parquet",
    "pooch": "data",
    "requests": "data",
    "torch": "torch",
    "safetensors": "torch",
    "jax": "jax",
    "jaxlib": "jax",
    "matplotlib": "plots",
    "onnx": "onnx",
}  # package -> the extra that installs it


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Print a `CrescendoError` or an error of the system as one sentence on stderr, and exit with code 1 or `DIVERGED`."""
    with interrupts.heeded(), _as_sentence():
        interrupts.check()
        try:
            yield
        except Exception:
            interrupts.check()  # a library may have turned an interrupt into this error
            raise


@contextlib.contextmanager
def _as_sentence() -> Iterator[None]:
    try:
        yield
    except CrescendoError as error:
        debugging = _debugging()
        whole = "" if debugging or not isinstance(error, OwnCodeError) else f"; {DEBUG}=1 shows the whole traceback"
        if debugging:
            traceback.print_exception(error)
        raise _fail(f"{error}{whole}", DIVERGED if isinstance(error, Diverged) else 1) from None
    except BrokenPipeError:
        # The reader has gone (`| head`): print nothing, and keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except KeyboardInterrupt:
        exec(
            ""
        )  # clears Python's note of an interrupt inside an exec, which under -m would end the process by the signal
        raise _fail("stopped", 130) from None
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise _fail(
            f"this needs the package {error.name}; install it with pip install 'crescendo-fl[{extra}]'"
        ) from None
    except MemoryError:
        raise _fail(
            "out of memory; use fewer clients or records, smaller rounds (schedule.sizes) or a larger evaluate.every"
        ) from None
    except OSError as error:
        raise _fail(_refused_by_system(error)) from None


def _refused_by_system(error: OSError) -> str:
    """
    >>> _refused_by_system(OSError(errno.ENOSPC, "No space left on device", "runs/a-1"))
    'the disk of runs/a-1 is full: no space left on device; free some space, or name a folder on another disk'
    >>> _refused_by_system(OSError(errno.EMFILE, "Too many open files"))
    'the system refused: too many open files'
    """
    reason, where = (error.strerror or str(error)).lower(), f" {error.filename}" if error.filename else ""
    if error.errno in OF_DISKS:
        what = f"the disk of{where}" if where else "a disk (`df -h` shows which)"
        return f"{what} is full: {reason}; free some space, or name a folder on another disk"
    remedy = "; check that path and who may use it, or name another" if error.errno in OF_PATHS and where else ""
    return f"the system refused{where}: {reason}{remedy}"


def _debugging() -> bool:
    return os.environ.get(DEBUG, "0") not in ("", "0")


def _fail(sentence: str, code: int = 1) -> typer.Exit:
    if _takes_a_line(sys.stderr):
        typer.echo(f"crescendo: {cleaned(sentence, LONGEST_SENTENCE)}", err=True)  # it may contain text from a server
    return typer.Exit(code)


def _takes_a_line(out: TextIO | None) -> bool:
    """Return False for a full pipe that is not read: the process then exits without its last sentence rather than hang."""
    try:
        return out is not None and bool(select.select([], [out], [], PATIENCE)[1])
    except (OSError, ValueError):
        return True  # a stream in memory


@contextlib.contextmanager
def on_the_network() -> Iterator[None]:
    """`one_sentence` for a command that uses gRPC. It silences gRPC's lines on stderr, which are not JSON and give no advice."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when grpc is imported, which commands do after this
    with one_sentence():
        yield


@contextlib.contextmanager
def event_log(form: LogForm | None) -> Iterator[Log]:
    """Open a log on stderr that also takes Python's warnings."""
    from crescendo.logs import JsonLog, hear_libraries
    from crescendo.logs.words import WordsLog

    interrupts.check()
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    in_words = on_terminal if form is None else form is LogForm.words
    with (WordsLog if in_words else JsonLog)() as log, hear_libraries(log):
        yield log


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on stdout, and flush it."""
    typer.echo(json.dumps(_finite(value), allow_nan=False))
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    """Return the value with None for every infinite number or NaN, which JSON lacks.

    >>> _finite({"epsilon": math.inf, "rounds": [1, 2.5, math.nan]})
    {'epsilon': None, 'rounds': [1, 2.5, None]}
    """
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
