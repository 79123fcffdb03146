"""Run folder: ``NAME.running`` during the run, ``NAME`` once it is complete, so that half a run is never taken for a run."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from crescendo import __version__
from crescendo.errors import ConfigError, DataError
from crescendo.storage.formats import RUN
from crescendo.whole_files import blamed_on

RUNNING = ".running"
_NUMBER = "format.json"
_LONGEST = 255  # bytes of a name, on every usual file system


def next_folder(name: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/NAME-NUMBER`` with the number after the last one taken by a run, complete or not."""
    taken = [found.name.removesuffix(RUNNING).rpartition("-")[2] for found in parent.glob(f"{name}-*")]
    return parent / f"{name}-{max([int(number) for number in taken if number.isdecimal()], default=0) + 1}"


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Open a draft folder that is renamed to ``out`` at the end. An error removes it; a killed process leaves it behind."""
    if "\0" in str(out):
        raise ConfigError("the name of the run's folder has a zero byte in it; name another with --out")
    if len(os.fsencode(f"{out.name}{RUNNING}")) > _LONGEST:
        raise ConfigError(
            f"the name of the run's folder, {out.name[:20]}.., is longer than file systems take; name another with --out"
        )
    if out.name.endswith(RUNNING):
        raise ConfigError(
            f"the name {out} is reserved for a run that is still going; name a folder without {RUNNING} with --out"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already; name another folder with --out, or remove it")
    made = [parent for parent in out.parents if not parent.exists()]
    draft = out.parent / f"{out.name}{RUNNING}"
    if draft.exists():
        raise ConfigError(
            f"{out}{RUNNING} exists: that run is still going or was killed; remove it, or name another folder with --out"
        )
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise ConfigError(f"the run's folder {out} cannot be made: {reason}; name another with --out") from None
    try:
        with blamed_on(out):
            yield draft
        try:
            draft.rename(out)
        except OSError:
            raise ConfigError(f"another program made {out} in the meantime; name another folder with --out") from None
    finally:
        if draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
            for parent in made:
                with contextlib.suppress(OSError):  # another run may be in it by now
                    parent.rmdir()


def require_run(folder: Path, files: Sequence[str], do: str) -> None:
    """Refuse a folder that is not that of a complete run with these ``files``; the error uses the verb ``do``."""
    if folder.name.endswith(RUNNING) or (not folder.exists() and folder.with_name(folder.name + RUNNING).exists()):
        raise DataError(f"{folder} is a run that is still going or was killed; {do} one that is complete")
    if not folder.exists():
        raise DataError(f"there is no folder {folder}; name one that `crescendo run` made")
    for name in files:
        if not (folder / name).is_file():
            raise DataError(f"{folder} is not a run's folder: it has no {name}; name a folder of `crescendo run`")
    check_format(folder)


def write_format(folder: Path) -> None:
    """Write a run folder's format, and the version that wrote it."""
    made = {"format": RUN.writes, "version": __version__}
    (folder / _NUMBER).write_text(json.dumps(made) + "\n", encoding="utf-8")


def check_format(folder: Path) -> None:
    """Refuse a run folder of a format that this version does not read. A folder without a number has format 1."""
    path = folder / _NUMBER
    try:
        found = int(json.loads(path.read_text(encoding="utf-8"))["format"]) if path.exists() else 1
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise DataError(f"{path} does not hold the folder's format; it was changed after the run") from None
    RUN.check(folder, found)
