"""A client's side without sockets: what is stored when, what is resumed where, what is never computed again."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import as_records
from crescendo.errors import Refused, UsageError
from crescendo.network.client.participant import Participant
from crescendo.network.client.seen import Seen
from crescendo.schedules.sizes import ConstantSizes, CutSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.ledger.outbox import Release
from crescendo.worker import Worker
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.ledger.budget import Budget
from tests.federation.agreements import agreement
from tests.objectives.bare import Bare

SOON = 60.0
EVENT = PoissonGaussian(1.0, 0.0)
NEWS = Broadcast(np.full(2, 5.0), 1, Settled(0))


class Steady(Bare):
    """An objective whose gradient is always one; it may be held in the middle of a round."""

    size = 2

    def __init__(self) -> None:
        self.may_go, self.is_in = threading.Event(), threading.Event()
        self.may_go.set()
        self.models: list[Any] = []

    def gradient(self, w: Any, data: Any, rows: Any, clip: Any = None, block: Any = None) -> Any:
        self.models.append(w.copy())
        self.is_in.set()
        assert self.may_go.wait(SOON)
        return np.ones(2)


def terms(rounds: int = 4, ahead: int = 1, whole: bool = False) -> Terms:
    sizes = CutSizes.of_rounds(ConstantSizes(6), rounds)
    steps = ConstantSteps(0.5)
    return Terms(sizes, steps, weights=(0.5, 0.5), rounds=rounds, ahead=ahead, whole_rounds=whole)


def opened(folder: Path, agreed: Terms) -> Ledger:
    ledger = open_ledger(folder / "ledger.sqlite", Budget(math.inf, 0.5))
    ledger.sign("f", "d" * 64, "me", [EVENT] * agreed.rounds, 1e-9, lambda events, delta: math.inf)
    return ledger


def participant(ledger: Ledger, agreed: Terms, goal: Steady, seen: Seen | None = None) -> Participant:
    data = as_records(np.zeros((1, 1)), [1.0])
    worker = Worker(agreed, 0, np.zeros(2), goal, data, np.zeros(1, dtype=np.int64), 0, "float64")
    return Participant(agreement(agreed, goal), 0, worker, ledger, seen)


class Working:
    """A participant at work in a thread of its own; what it releases comes out here."""

    def __init__(self, one: Participant) -> None:
        self.released: list[Release] = []
        self._wake = threading.Condition()
        self._participant = one
        self._thread = threading.Thread(target=one.work, args=(self._tell,))

    def __enter__(self) -> Working:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._participant.stop()
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def _tell(self, release: Release) -> None:
        assert release.data is not None
        with self._wake:
            self.released.append(release)
            self._wake.notify()

    def until(self, count: int) -> None:
        with self._wake:
            assert self._wake.wait_for(lambda: len(self.released) >= count, SOON)


@pytest.mark.parametrize("whole", [False, True], ids=["taken in at once", "put aside until the next round"])
def test_a_broadcast_is_stored_at_once_in_the_middle_of_a_slot(whole: bool, tmp_path: Path) -> None:
    goal, agreed = Steady(), terms(whole=whole)
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        one._slots = 1  # a piece is a slot
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        goal.may_go.clear()
        with Working(one) as at_work:
            assert goal.is_in.wait(SOON)
            one.hear(NEWS)  # returns although a gradient is being computed
            goal.may_go.set()
            at_work.until(2)
        in_first_round = [model[0] for model in goal.models[:3]]
        assert in_first_round == ([0.0, -0.5, -1.0] if whole else [0.0, 4.5, 4.0])
        assert goal.models[3][0] == 5.0 - 1.5  # the next round starts from the news, less what is on the way


def test_it_computes_nothing_before_it_has_heard_the_newest_model(tmp_path: Path) -> None:
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        with Working(one) as at_work:
            one.welcomed(0)
            assert not goal.models
            one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
            at_work.until(2)


def test_a_release_is_on_disk_before_anybody_is_told(tmp_path: Path) -> None:
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        known: list[bytes | None] = []
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))

        def tell(release: Release) -> None:
            known.append(ledger.released("f", release.round))
            assert known[-1] == release.data
            if release.round == 1:
                one.stop()

        one.work(tell)
        assert len(known) == 2 and ledger.last_round("f") == 1


def test_it_resumes_after_its_own_last_round_and_sends_again_what_the_server_lacks(tmp_path: Path) -> None:
    agreed = terms()
    with opened(tmp_path, agreed) as ledger:
        sent = [np.full(2, 1.0).tobytes(), np.full(2, 2.0).tobytes()]
        for i, data in enumerate(sent):
            ledger.release("f", i, EVENT, data)
        ledger.acknowledge("f", Settled(1))
    goal = Steady()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        assert (one.last, one.round) == (1, 2)
        assert one.to_send(Settled(1)) == ([Release(1, sent[1])], [])
        assert one.to_send(Settled(0)) == ([Release(1, sent[1])], [0])  # acknowledged once, and lost by the server
        one.welcomed(0)  # the server names an earlier round: its word does not count
        one.hear(Broadcast(np.full(2, 7.0), 1, Settled(1)))
        with Working(one) as at_work:
            at_work.until(1)
        assert at_work.released[0].round == 2
        assert goal.models[0][0] == 7.0 - 2.0  # the newest model less its own update that is on the way


def test_after_a_restart_even_the_first_model_is_news(tmp_path: Path) -> None:
    """At k = 0 the server may have this client's first update already; the outbox no longer has it."""
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        ledger.release("f", 0, EVENT, np.ones(2).tobytes())
        ledger.acknowledge("f", Settled(1))
        one = participant(ledger, agreed, goal)
        one.hear(Broadcast(np.full(2, -1.0), 0, Settled(1)))
        with Working(one) as at_work:
            at_work.until(1)
        assert at_work.released[0].round == 1 and goal.models[0][0] == -1.0


def test_rounds_that_passed_while_it_was_away_are_void_and_not_charged(tmp_path: Path) -> None:
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        one.welcomed(3)
        one.hear(Broadcast(np.zeros(2), 3, Settled(3)))
        with Working(one) as at_work:
            at_work.until(1)
        assert [release.round for release in at_work.released] == [3]
        assert ledger.summary(lambda events, delta: math.inf)["federations"][0]["charged"] == 1


def test_it_is_over_when_the_run_is_and_everything_has_arrived(tmp_path: Path) -> None:
    goal, agreed = Steady(), terms(rounds=1)
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        with Working(one) as at_work:
            at_work.until(1)
            one.hear(Broadcast(np.full(2, 9.0), 1, Settled(1)))
            assert one.final is None
            one.acknowledged(Settled(1), 0, 1)
            at_work._thread.join(SOON)
        assert one.final is not None and one.final.tolist() == [9.0, 9.0]


def test_an_acknowledgement_of_a_round_that_it_never_sent_means_that_another_copy_is_at_work(tmp_path: Path) -> None:
    agreed = terms()
    with opened(tmp_path, agreed) as ledger:
        ledger.release("f", 0, EVENT, np.ones(2).tobytes())
        one = participant(ledger, agreed, Steady())
        one.check_alone(Settled(1))
        one.check_alone(Settled(3), start=3)  # it was away, and nobody waited for rounds 1 and 2
        with pytest.raises(Refused, match=r"has round 1 .* another copy is at work"):
            one.check_alone(Settled(2))
        with pytest.raises(Refused, match="has round 3"):
            one.check_alone(Settled(1, ((3, 4),)))
        one.welcomed(3)
        one.check_alone(Settled(3))


def test_an_error_of_its_own_names_the_client_as_people_do(tmp_path: Path) -> None:
    agreed = terms()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, Steady())
        one.hear(Broadcast(np.zeros(2), 1, Settled(3)))
        with pytest.raises(UsageError, match="the server has rounds of me beyond -1"):
            one.work(lambda release: None)


def test_a_broadcast_that_is_not_finite_is_refused_and_the_work_goes_on(tmp_path: Path) -> None:
    goal, agreed = Steady(), terms()
    with opened(tmp_path, agreed) as ledger:
        one = participant(ledger, agreed, goal)
        one.hear(Broadcast(np.zeros(2), 0, Settled(0)))
        with Working(one) as at_work:
            one.hear(Broadcast(np.array([np.nan, 0.0]), 1, Settled(0)))
            one.hear(NEWS)
            at_work.until(3)


def test_what_was_seen_of_the_server_outlives_the_process_and_a_torn_file_only_forgets(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    first = Seen(path)
    first.note(0, 4, Settled(2, ((5, 6),)))
    first.keep()
    found = Seen(path)
    assert (found.epoch, found.k, found.settled) == (0, 4, Settled(2, ((5, 6),)))
    found.note(1, 2, Settled(1))
    found.note(0, 9, Settled(9))  # an older epoch is old news
    found.keep()
    assert (Seen(path).epoch, Seen(path).k, Seen(path).settled) == (1, 2, Settled(1))
    path.write_text('{"epoch": 0, "k": 9, "below": 2, "beyond": [4, 5, 8]}')  # as it was before ranges
    assert Seen(path).settled == Settled(2, ((4, 6), (8, 9)))
    path.write_text("{")
    assert Seen(path).k == 0
