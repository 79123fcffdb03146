"""The ledger on disk: nothing is charged twice, forgotten or sent with fresh noise, whatever happens to process and file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import Refused
from crescendo.privacy.budget import Budget
from crescendo.privacy.events import PoissonGaussian
from crescendo.runtimes.store import VoidRound, open_ledger
from tests.runtimes.ledger_play import BUDGET, PLAN, begun, cheap, store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_a_ledger_opened_again_is_the_same_ledger(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        store(ledger, 3, b"three")
        before, head, instance = ledger.summary(cheap), ledger.head, ledger.instance
    with open_ledger(path) as again:
        assert (again.summary(cheap), again.head, again.instance) == (before, head, instance)
        assert again.last_round("f") == 3
        assert again.unacknowledged("f") == [(0, b"zero"), (3, b"three")]
    assert {file.name for file in path.parent.iterdir()} == {"ledger.db", "ledger.db.lock"}  # at rest


def test_nobody_else_may_read_the_outbox(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"raw numbers")
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert len(found) == 4 and set(found.values()) == {0o600}, found  # the log and its index too


def test_a_released_round_gives_its_stored_bytes_for_ever(path: Path) -> None:
    with begun(path) as ledger:
        assert store(ledger, 0, b"first") == b"first" == store(ledger, 0, b"fresh noise")
    with open_ledger(path) as again:
        assert store(again, 0, b"fresh noise") == again.released("f", 0) == b"first"
        assert again.released("f", 1) is None
        assert again.summary(cheap)["federations"][0]["charged"] == 1


def test_acknowledged_bytes_are_dropped_and_the_charge_stays(path: Path) -> None:
    with begun(path) as ledger:
        for i in (0, 1, 2, 4):
            store(ledger, i, b"%d" % i)
        ledger.acknowledge("f", Settled(1, frozenset({2})))
        ledger.acknowledge("f", Settled(1, frozenset({2})))
        assert [i for i, _ in ledger.unacknowledged("f")] == [1, 4]
        assert ledger.summary(cheap)["federations"][0]["charged"] == 4
        with pytest.raises(VoidRound, match="round 2 of federation 'f' was released and its bytes are gone"):
            store(ledger, 2, b"fresh noise")
        assert ledger.void("f", Settled(3)) == []
        assert ledger.void("f", Settled(2)) == [2]  # a server opened from an older state lacks it


def test_what_was_not_signed_off_is_refused_and_leaves_no_trace(path: Path) -> None:
    with begun(path) as ledger:
        head = ledger.head
        for i, event in [(0, PoissonGaussian(0.02, 2.0)), (0, PoissonGaussian(0.01, 2.5)), (5, PLAN[0]), (99, PLAN[0])]:
            assert event is not None
            with pytest.raises(Refused):
                ledger.release("f", i, event, b"data")
        with pytest.raises(Refused, match="was not signed off"):
            ledger.release("g", 0, PoissonGaussian(0.01, 2.0), b"data")
        with pytest.raises(Refused, match="cannot change them"):
            ledger.sign("f", "other terms", "me", PLAN, 1e-7, cheap)
        with pytest.raises(Refused, match="asks epsilon 3 at delta 1e-07"):
            ledger.sign("g", "terms", "me", [PoissonGaussian(0.5, 0.5)] * 300, 1e-7, cheap)
        assert ledger.head == head and ledger.unacknowledged("f") == []


def test_a_closed_federation_sends_nothing_new_and_what_it_sent_again(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        ledger.close_federation("f")
        ledger.close_federation("f")
    with open_ledger(path) as again:
        assert again.unacknowledged("f") == [(0, b"zero")] and store(again, 0, b"") == b"zero"
        with pytest.raises(Refused, match="was closed after round 0"):
            store(again, 1, b"one")


def test_a_server_that_has_more_than_the_ledger_stops_the_client(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        ledger.check_not_behind("f", [0])
        with pytest.raises(Refused, match=r"the server has round 3 .* older copy"):
            ledger.check_not_behind("f", [3, 0, 4])


def test_the_summary_is_plain_data_with_what_is_spent_and_left(path: Path) -> None:
    with begun(path) as ledger:
        for i in (0, 1):
            store(ledger, i, b"data")
        summary = json.loads(json.dumps(ledger.summary(cheap)))
    (federation,) = summary["federations"]
    assert (federation["rounds"], federation["charged"], federation["last_round"]) == (30, 2, 1)
    assert federation["spent"] == pytest.approx(0.02) and federation["promised"] == pytest.approx(0.29)
    assert summary["spent"]["epsilon"] == pytest.approx(0.02) and summary["promised"]["epsilon"] == pytest.approx(0.29)
    assert summary["left"]["epsilon"] == pytest.approx(1.71) and summary["epsilon"] == 2.0


def test_a_ledger_without_a_limit_keeps_an_outbox_for_a_federation_without_privacy(path: Path) -> None:
    bare = PoissonGaussian(1.0, 0.0)
    with open_ledger(path, Budget(float("inf"), 1e-6)) as ledger:
        ledger.sign("f", "terms", "me", [bare] * 3, 1e-7)
        ledger.release("f", 0, bare, b"zero")
    with open_ledger(path) as again:
        assert again.unacknowledged("f") == [(0, b"zero")]
        assert again.summary()["promised"]["epsilon"] is None


@pytest.mark.slow
def test_the_price_is_the_tight_one_unless_another_is_given(path: Path) -> None:
    with open_ledger(path, BUDGET) as ledger:
        promise = ledger.sign("f", "terms", "me", [PoissonGaussian(0.01, 1.0)] * 100, 1e-6)
        assert 0.5 < promise.epsilon < 1.0
        assert ledger.summary()["spent"]["epsilon"] == 0


def test_every_commit_is_synced_to_disk_before_it_returns(path: Path) -> None:
    with begun(path) as ledger:
        asked = [
            ledger._file._open().execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
        assert asked == ["wal", 2]  # 2 is FULL
