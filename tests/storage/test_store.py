"""The ledger on disk: nothing is charged twice, forgotten or sent with fresh noise, whatever happens to process and file."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import Refused, UsageError
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.ledger.budget import Budget
from tests.storage.ledger_play import BUDGET, PLAN, begun, cheap, store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_a_ledger_opened_again_is_the_same_ledger(path: Path) -> None:
    with begun(path) as ledger:
        store(ledger, 0, b"zero")
        store(ledger, 3, b"three")
        before, head, instance = ledger.summary(cheap), ledger.head, ledger.instance_of("f")
    with open_ledger(path) as again:
        assert (again.summary(cheap), again.head, again.instance_of("f")) == (before, head, instance)
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
        ledger.acknowledge("f", Settled(1, ((2, 3),)))
        ledger.acknowledge("f", Settled(1, ((2, 3),)))
        assert [i for i, _ in ledger.unacknowledged("f")] == [1, 4]
        assert ledger.summary(cheap)["federations"][0]["charged"] == 4
        with pytest.raises(UsageError, match="round 2 of federation 'f' was released and its bytes are gone"):
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
        with pytest.raises(Refused, match="asks for epsilon 3 at delta 1e-07"):
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


def test_a_federation_closed_before_its_first_charge_gives_all_back_and_stays_closed(path: Path) -> None:
    with begun(path) as ledger:
        ledger.close_federation("f", withdrawn=True)
        assert ledger.open_federations() == []
    with open_ledger(path) as again:
        summary = again.summary(cheap)
        assert summary["left"] == {"epsilon": 2.0, "delta": 1e-6} and summary["federations"][0]["returned"] is True
        account = again.account("f")
        assert account is not None and account.closed and account.withdrawn and again.account("g") is None
        with pytest.raises(Refused, match="was closed after round -1"):
            store(again, 0, b"zero")
        assert (
            again.sign("f", "terms", "me", PLAN, 1e-7, cheap) and again.open_federations() == []
        )  # signing opens nothing


def test_a_ledger_of_an_earlier_version_reads_as_it_did(path: Path) -> None:
    """Entries as they were written before closing returned anything, instances were apart and charges could be void."""
    file = LedgerFile(path, create=True)
    budget = {"epsilon": 2.0, "delta": 1e-6, "split": 0.5, "dataset": "ward 7", "instance": "ab" * 16}
    plan = [None if event is None else [event.rate, event.sigma] for event in PLAN]
    sign = {"terms": "terms", "client": "me", "plan": plan, "delta": 1e-7, "epsilon": 0.29, "divergence": 0.0}
    file.append("budget", budget)
    file.append("sign", {**sign, "federation": "f", "orders": {"order": 22.0, "delta": 5e-7}})
    charge = {"federation": "f", "round": 0, "rate": 0.01, "sigma": 2.0, "sha256": hashlib.sha256(b"zero").hexdigest()}
    file.append("charge", charge, b"zero")
    file.append("sign", {**sign, "federation": "never begun", "orders": None})
    file.append("close", {"federation": "never begun"})
    file.close()
    with open_ledger(path, BUDGET, dataset="ward 7") as ledger:
        assert ledger.unacknowledged("f") == [(0, b"zero")] and ledger.open_federations() == ["f"]
        assert ledger.instance_of("f") == "ab" * 16  # the server has registered it so
        assert ledger.summary(cheap)["left"]["delta"] == pytest.approx(3e-7)  # as it was counted then
        ledger.sign("next", "terms", "me", PLAN, 1e-7, cheap)
        assert ledger.instance_of("next") != "ab" * 16
        store(ledger, 1, b"one")


def test_two_federations_know_the_client_by_numbers_that_cannot_be_compared(path: Path) -> None:
    with begun(path) as ledger:
        ledger.sign("g", "terms", "me", PLAN, 1e-7, cheap)
        found = [ledger.instance_of(federation) for federation in ("f", "g")]
        assert len({*found, ledger._secret}) == 3 and all(re.fullmatch("[0-9a-f]{32}", one) for one in found)
        assert ledger._secret not in json.dumps(ledger.summary(cheap))
    with open_ledger(path) as again:
        assert [again.instance_of(federation) for federation in ("f", "g")] == found


def test_offers_are_counted_on_disk_and_a_restart_forgets_none(path: Path) -> None:
    for j in range(4):
        with open_ledger(path, BUDGET) as ledger:
            ledger.consider(f"f{j}", f"terms {j}", most=4, now=1000.0 + j)
            ledger.consider(f"f{j}", f"terms {j}", most=4, now=1000.0 + j)  # the same once more
    with open_ledger(
        path, Budget(3.0, 1e-6)
    ) as ledger:  # nothing was signed off, so the numbers can still be corrected
        with pytest.raises(Refused, match="4 different terms were offered within 24 hours"):
            ledger.consider("f0", "smaller", most=4, now=80_000.0)
        ledger.consider("f0", "smaller", most=5, now=80_000.0)
        ledger.consider("f1", "smaller", most=4, now=1001.5 + 86_400.0)  # two of the five are too old by now
        with pytest.raises(Refused, match="different terms were offered"):
            ledger.consider("f1", "smaller still", most=4, now=1001.5 + 86_400.0)
        ledger.sign("g", "terms", "me", PLAN, 1e-7, cheap)
        ledger.consider("g", "terms", most=1, now=80_000.0)  # what was signed off is no offer
    assert open_ledger(path, read_only=True).budget == Budget(3.0, 1e-6)


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
