"""A journal that is read or copied while its server makes and removes files: what a look missed is never called damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.segments import Segments
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import check_journal
from crescendo.storage.upkeep.journal_copy import copy_journal
from tests.storage.durable_play import make, opened, run_some


def checked(folder: Path) -> list[str]:
    """The damage that a check finds."""
    found = Examination(folder, "server")
    check_journal(folder, make, found)
    return found.damage


def checked_copy(folder: Path) -> list[str]:
    """The damage that a check finds in a copy."""
    copy_journal(folder, folder.with_name("copy"))
    return checked(folder.with_name("copy"))


def train(server: DurableServer, first: int, last: int) -> None:
    for i in range(first, last):
        run_some(server, i, i + 1)
        server.snapshot()


both = pytest.mark.parametrize("damage_of", [checked, checked_copy])


@both
def test_a_server_that_prunes_twice_between_the_snapshots_and_the_segments_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage_of: Callable[[Path], list[str]]
) -> None:
    real, todo = Segments.paths, [(4, 7)]

    def paths(segments: Segments) -> list[Path]:
        if asked:
            asked.clear()
            train(server, *todo.pop())
        return real(segments)

    asked = list[int]()
    monkeypatch.setattr(Segments, "paths", paths)
    with opened(tmp_path / "journal", prune=True) as server:
        train(server, 0, 4)
        asked.append(1)
        assert damage_of(tmp_path / "journal") == [] and not todo


@both
def test_a_file_that_is_made_while_a_folder_is_read_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage_of: Callable[[Path], list[str]]
) -> None:
    """The system may give a reader of the folder the newest segment and not the one before, which was made meanwhile."""
    real, looks = Segments._named, list[int]()

    def named(segments: Segments) -> list[Path]:
        looks.append(1)
        found = real(segments)
        return [*found[:-2], found[-1]] if len(looks) == 2 else found

    with opened(tmp_path / "journal") as server:
        train(server, 0, 4)
    monkeypatch.setattr(Segments, "_named", named)
    assert damage_of(tmp_path / "journal") == []
