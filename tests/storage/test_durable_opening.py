"""Who may open a server's folder, with which terms, and who is waited for then."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import DataError, Refused, UsageError
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Back
from crescendo.storage.journal.segments import Segments
from tests.storage.durable_play import TERMS, make, opened, state_of, update


def test_two_servers_on_one_folder_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(UsageError, match="in use by another process"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_nobody_else_may_read_what_clients_sent(tmp_path: Path) -> None:
    with opened(tmp_path / "journal") as server:
        server.submit(update(0, 1))
        server.snapshot()
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "journal").iterdir()}
    assert len(modes) >= 3 and set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_other_terms_are_refused_and_change_nothing(tmp_path: Path, with_snapshot: bool) -> None:
    with opened(tmp_path) as server:
        server.submit(update(0, 0))
        server.commit()
        if with_snapshot:
            server.snapshot()
        before = state_of(server)
    with pytest.raises(Refused, match="begun with other terms"):
        opened(tmp_path, '{"federation":"other"}')
    with opened(tmp_path) as again:
        assert state_of(again) == before


def test_a_folder_without_a_federation_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no journal"):
        DurableServer(tmp_path, TERMS, make)
    with opened(tmp_path) as server:
        server.snapshot()
    for segment in Segments(tmp_path).paths():
        segment.unlink()
    with pytest.raises(DataError, match="no journal"):
        opened(tmp_path)  # a snapshot without its journal is not a beginning either


def test_clients_named_late_are_waited_for_once_they_come(tmp_path: Path) -> None:
    with opened(tmp_path, present=[0]) as server:
        server.submit(update(0, 0))
        assert server.commit().due and server.k == 1
        server.submit(Back(1, -1))
        server.commit()
        assert server.start_of(1) == 1 and server.settled(1) == Settled(1)
        server.submit(update(1, 0))
        assert not server.commit().due
    with opened(tmp_path, present=[0, 1, 2]) as again:  # what counts is how it was begun
        assert again.present.tolist() == [True, True, False]
