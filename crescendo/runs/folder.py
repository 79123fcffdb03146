"""A run's folder: ``NAME.running`` while the run goes on, ``NAME`` once it is complete: half a run is never taken for one."""

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
    """``runs/NAME-1``, or the first number after the last one taken, be it complete or not."""
    taken = [found.name.removesuffix(RUNNING).rpartition("-")[2] for found in parent.glob(f"{name}-*")]
    return parent / f"{name}-{max([int(number) for number in taken if number.isdecimal()], default=0) + 1}"


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A place to write in that becomes ``out`` at the end. An error removes it; a killed process leaves it, for people to see."""
    if "\0" in str(out):
        raise ConfigError("the name of the run's folder has a zero byte in it; name another with --out")
    if len(os.fsencode(f"{out.name}{RUNNING}")) > _LONGEST:
        raise ConfigError(
            f"the name of the run's folder, {out.name[:20]}.., is longer than file systems take; name another with --out"
        )
    if out.name.endswith(RUNNING):
        raise ConfigError(
            f"{out} is what a run is called that still goes on; name a folder without {RUNNING} with --out"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already; name another folder with --out, or remove it")
    made = [parent for parent in out.parents if not parent.exists()]
    draft = out.parent / f"{out.name}{RUNNING}"
    if draft.exists():
        raise ConfigError(
            f"{out}{RUNNING} is there, a run that still goes on or was killed; remove it, or name another folder with --out"
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
            raise ConfigError(f"{out} was made by another program meanwhile; name another folder with --out") from None
    finally:
        if draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
            for parent in made:
                with contextlib.suppress(OSError):  # somebody else's run may lie in it by now
                    parent.rmdir()


def require_run(folder: Path, files: Sequence[str], do: str) -> None:
    """DataError, in a sentence, unless ``folder`` is that of a complete run with these ``files``; ``do`` is what for."""
    if folder.name.endswith(RUNNING) or (not folder.exists() and folder.with_name(folder.name + RUNNING).exists()):
        raise DataError(f"{folder} is a run that still goes on or was killed; {do} one that is complete")
    if not folder.exists():
        raise DataError(f"there is no folder {folder}; name one that `crescendo run` made")
    for name in files:
        if not (folder / name).is_file():
            raise DataError(f"{folder} is not a run's folder: it has no {name}; name a folder of `crescendo run`")
    check_format(folder)


def write_format(folder: Path) -> None:
    """Say in a run's folder which format it has, and which version wrote it."""
    made = {"format": RUN.writes, "version": __version__}
    (folder / _NUMBER).write_text(json.dumps(made) + "\n", encoding="utf-8")


def check_format(folder: Path) -> None:
    """Refuse a run's folder of a format that this program does not read. One without a number is from before there were any."""
    path = folder / _NUMBER
    try:
        found = int(json.loads(path.read_text(encoding="utf-8"))["format"]) if path.exists() else 1
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise DataError(f"{path} does not say which format the folder has; it was changed after the run") from None
    RUN.check(folder, found)
