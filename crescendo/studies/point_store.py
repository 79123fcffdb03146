"""Store of a study's finished points: one atomically written file each, so that a study can resume where it stopped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crescendo.errors import ConfigError, CrescendoError
from crescendo.studies.points import FORMAT, Outcome, StudyPoint
from crescendo.whole_files import blamed_on, whole_file

_MARK, _POINTS = "study.json", "points"


class PointStore:
    """Keeps outcomes in ``folder``; with None, in memory for as long as the study lasts."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[str, Outcome] = {}

    def kept(self, point: StudyPoint) -> Outcome | None:
        """Return the stored outcome of this exact run; None if there is none, or if it failed and is to be retried."""
        found = self._memory.get(point.digest) if self.folder is None else _read(self._path(self.folder, point), point)
        return found if found is not None and found.status != "failed" else None

    def keep(self, point: StudyPoint, outcome: Outcome) -> None:
        if self.folder is None:
            self._memory[point.digest] = outcome
        else:
            told = {"digest": point.digest, "label": point.label, "outcome": outcome.to_json()}
            with whole_file(self._path(self.folder, point)) as file:
                file.write((json.dumps(told, allow_nan=False) + "\n").encode())

    @staticmethod
    def _path(folder: Path, point: StudyPoint) -> Path:
        return folder / _POINTS / f"{point.digest[:32]}.json"


def _read(path: Path, point: StudyPoint) -> Outcome | None:
    """Read an outcome; None if the file is missing or was changed, so that the point runs again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Outcome.from_json(found["outcome"]) if found["digest"] == point.digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def opened(out: Path | None, kind: str, pages: Sequence[str], keeps: bool = True) -> Iterator[PointStore]:
    """Open the store of a study of this ``kind`` ("comparison", "sweep"), new or resumed, for one process at a time.

    With ``keeps`` False no outcome is stored, the next call starts over, and the folder holds pages only. The study
    writes ``pages`` at its end; those of an earlier study are deleted first, so that they cannot be mistaken for new
    ones.
    """
    if out is None:
        yield PointStore(None)
        return
    _check(out, kind)
    new = _is_empty(out)
    try:
        (out / _POINTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise ConfigError(f"cannot create the study's folder {out}: {reason}; name another with --out") from None
    handle = os.open(out / _MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{out} is being written to by another study; wait for it, or name another folder with --out"
            ) from None
        try:
            with blamed_on(out):
                if not os.fstat(handle).st_size:
                    os.write(handle, (json.dumps({"format": FORMAT, "kind": kind}) + "\n").encode())
                for page in pages:
                    (out / page).unlink(missing_ok=True)
                yield PointStore(out if keeps else None)
        except (CrescendoError, OSError):
            if new and not any(_ended(path) for path in (out / _POINTS).iterdir()):
                shutil.rmtree(out, ignore_errors=True)  # no point finished
            raise
    finally:
        os.close(handle)


def _ended(path: Path) -> bool:
    """Return True for a stored point that need not run again."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["outcome"]["status"] != "failed")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _is_empty(out: Path) -> bool:
    """Return True if the folder is missing, empty, or holds only an empty points folder."""
    if not out.exists():
        return True
    return out.is_dir() and all(
        path.name == _POINTS and path.is_dir() and not any(path.iterdir()) for path in out.iterdir()
    )


def _check(out: Path, kind: str) -> None:
    """Refuse a folder that holds anything but a study of this kind."""
    if _is_empty(out):
        return
    try:
        text = (out / _MARK).read_text(encoding="utf-8")
        found: dict[str, Any] = (
            json.loads(text) if text else {"format": FORMAT, "kind": kind}
        )  # killed before its first write
        there, number = str(found["kind"]), int(found["format"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{out} already exists and holds no {kind} to resume; name another folder with --out, or remove it"
        ) from None
    if there != kind:
        raise ConfigError(f"{out} holds a {there}, not a {kind}; name another folder with --out")
    if number != FORMAT:
        raise ConfigError(
            f"{out} has format {number}, but this version writes {FORMAT}; name another folder with --out"
        )
