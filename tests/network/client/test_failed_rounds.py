"""A private round that fails between draw and charge: charged and void in one transaction, and never computed again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo.network.client.participant as member_module
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import as_records
from crescendo.errors import UsageError
from crescendo.network.client.participant import MOST_FAILED, Participant
from crescendo.objectives import Traits
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import ConstantSizes, CutSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.ledger.outbox import Release
from crescendo.worker import Worker
from crescendo_dp.ledger.budget import Budget
from tests.federation.agreements import agreement
from tests.objectives.bare import Bare
from tests.storage.ledger_play import cheap

ROUNDS, RECORDS = 6, 8
ROWS = np.arange(RECORDS, dtype=np.int64)


class Fragile(Bare):
    """A model that clips by itself, so that nothing stands between what it raises and the worker."""

    size, traits = 2, Traits(name="fragile", clips=True)

    def __init__(self, raises: BaseException | None = None, at: int = 1) -> None:
        self.raises, self._at, self.calls = raises, at, 0

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None, unit: Any = None) -> Any:
        self.calls += 1
        if self.raises is not None and self.calls > self._at:
            raise self.raises
        return np.ones(2) * clip / 2


class Scene:
    """One private client on a ledger in a folder; every record is in every round."""

    def __init__(self, folder: Path) -> None:
        sizes = CutSizes.of_rounds(ConstantSizes(RECORDS), ROUNDS)
        self.terms = Terms(sizes, ConstantSteps(0.5), (1.0,), ROUNDS, ahead=ROUNDS, whole_rounds=True)
        self.path, self.log = folder / "ledger.sqlite", []  # type: tuple[Path, list[dict[str, Any]]]
        self.told: list[Release] = []

    def opened(self) -> Ledger:
        return open_ledger(self.path, Budget(10.0, 1e-3))

    def participant(self, ledger: Ledger, goal: Fragile) -> Participant:
        made = certify("minibatch", self.terms, goal, clip=1.0, sigma=2.0, records=(RECORDS,))
        plan = tuple(made.event(i, 0) for i in range(ROUNDS))
        ledger.sign("f", "d" * 64, "me", plan, 1e-6, cheap)
        mechanism = Private(made, 0, ROWS, SeededSource(7, 0))
        data = as_records(np.ones((RECORDS, 1)), np.ones(RECORDS))
        worker = Worker(self.terms, 0, np.zeros(2), goal, data, ROWS, 7, "float64", mechanism)
        agreed = agreement(self.terms, goal, made)
        one = Participant(
            agreed, 0, worker, ledger, log=lambda event, **facts: self.log.append({"event": event, **facts})
        )
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        return one

    def work(self, one: Participant, until: int) -> None:
        """Until round ``until`` is released or void."""

        def tell(done: Release) -> None:
            self.told.append(done)
            if done.round == until:
                one.stop()

        one.work(tell)


def charged(ledger: Ledger) -> int:
    count = ledger.summary(cheap)["federations"][0]["charged"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("raised", [ValueError("record 17 of Ann"), MemoryError(), SystemExit(2)], ids=repr)
def test_a_round_that_raises_is_charged_and_void_and_the_client_goes_on(raised: BaseException, tmp_path: Path) -> None:
    scene, goal = Scene(tmp_path), Fragile(raised)
    with scene.opened() as ledger:
        one = scene.participant(ledger, goal)

        def tell(done: Release) -> None:
            scene.told.append(done)
            goal.raises = raised if done.round < 1 else None
            if done.round == 3:
                one.stop()

        one.work(tell)
        assert [done.data is None for done in scene.told] == [False, True, False, False]
        assert [done.round for done in scene.told] == [0, 1, 2, 3] and charged(ledger) == 4
        assert one.to_send(Settled(0))[1] == ledger.void("f", Settled(0)) == [1]
        assert [i for i, _ in ledger.unacknowledged("f")] == [0, 2, 3]
        before = scene.log[0]
        assert before["event"] == "round_failed" and before["error"] == type(raised).__name__
        assert before["at"].startswith("test_failed_rounds.py:") and "Ann" not in str(scene.log)
        own = {done.round: np.frombuffer(done.data) for done in scene.told if done.data is not None}
        np.testing.assert_array_equal(one._worker.client.start(), -sum(own.values()))  # it moved by what was sent


@pytest.mark.parametrize("where", ["the release", "the encoding"])
def test_a_round_that_raises_after_it_was_computed_is_void_too(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has moved by an update that was never sent: it moves back."""
    scene, count = Scene(tmp_path), [0]
    owner: Any = Private if where == "the release" else member_module
    name = "release" if where == "the release" else "encode"
    sound = getattr(owner, name)

    def second_fails(*words: Any) -> Any:
        count[0] += 1
        if count[0] == 2:
            raise OverflowError("too large for the wire")
        return sound(*words)

    monkeypatch.setattr(owner, name, second_fails)
    with scene.opened() as ledger:
        one = scene.participant(ledger, Fragile())
        scene.work(one, until=2)
        assert [done.data is None for done in scene.told] == [False, True, False] and charged(ledger) == 3
        own = [np.frombuffer(done.data) for done in scene.told if done.data is not None]
        np.testing.assert_array_equal(one._worker.client.start(), -sum(own))


def test_a_client_that_starts_again_does_not_repeat_the_round_with_fresh_noise(tmp_path: Path) -> None:
    """The record is still there, and so is what it breaks: each start goes one round further, and pays for it."""
    scene = Scene(tmp_path)
    for start in range(3):
        with scene.opened() as ledger:
            one = scene.participant(ledger, Fragile(ValueError(), at=0))
            assert one.round == start
            scene.work(one, until=start)
            assert scene.told.pop() == Release(start) and charged(ledger) == start + 1
    with scene.opened() as ledger:
        assert ledger.void("f", Settled(0)) == [0, 1, 2] and ledger.unacknowledged("f") == []


def test_a_client_whose_rounds_all_fail_ends_with_a_sentence(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.opened() as ledger:
        one = scene.participant(ledger, Fragile(MemoryError(), at=0))
        with pytest.raises(UsageError, match=r"3 rounds in a row failed .* MemoryError at test_failed_rounds.py:"):
            scene.work(one, until=ROUNDS)
        assert charged(ledger) == MOST_FAILED


def test_a_disk_that_fails_ends_the_client_and_nothing_was_sent(tmp_path: Path) -> None:
    """Whether a write fails does not depend on a record, and nobody has seen the noise: the round may be drawn again."""
    scene = Scene(tmp_path)
    with scene.opened() as ledger:
        one = scene.participant(ledger, Fragile())
        ledger._file._open().execute("pragma query_only = 1")
        with pytest.raises(UsageError, match=r"the ledger .* cannot be opened or written"):
            scene.work(one, until=ROUNDS - 1)
        assert scene.told == []
    with scene.opened() as ledger:
        one = scene.participant(ledger, Fragile())
        assert one.round == charged(ledger) == 0
        scene.work(one, until=ROUNDS - 1)
    assert [done.round for done in scene.told] == list(range(ROUNDS))


def test_a_void_charge_is_an_entry_of_a_kind_that_older_programs_know(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.opened() as ledger:
        scene.work(scene.participant(ledger, Fragile(ValueError(), at=0)), until=0)
    with sqlite3.connect(scene.path) as db:
        found = db.execute("select kind, json_extract(body, '$.sha256') from entries order by seq").fetchall()
        assert found[-1] == ("charge", None) and db.execute("select count(*) from outbox").fetchone() == (0,)
    db.close()
