"""A run's folder: written beside its final name and renamed when complete, so that no half of a run is ever seen."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crescendo.errors import ConfigError


def next_folder(name: str, parent: Path = Path("runs")) -> Path:
    """``runs/NAME-1``, or the first number after the last one taken."""
    taken = [found.name.rpartition("-")[2] for found in parent.glob(f"{name}-*")]
    return parent / f"{name}-{max([int(number) for number in taken if number.isdecimal()], default=0) + 1}"


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A place to write in that becomes ``out`` at the end, and vanishes if the end is not reached."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already; name another folder with --out, or remove it")
    made = [parent for parent in out.parents if not parent.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise ConfigError(f"the run's folder {out} cannot be made: {reason}; name another with --out") from None
    try:
        yield draft
        draft.chmod(0o755)  # mkdtemp makes it private
        try:
            draft.rename(out)
        except OSError:
            raise ConfigError(f"{out} was made by somebody else meanwhile; name another folder with --out") from None
    finally:
        if draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
            for parent in made:
                with contextlib.suppress(OSError):  # somebody else's run may lie in it by now
                    parent.rmdir()


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8")
