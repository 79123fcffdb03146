"""Workers, simulators and checks of traces with one bug each. The docstring is the bug."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Update
from crescendo.core.terms import Terms
from crescendo.simulator.consistency import check
from crescendo.simulator.simulation import Simulation
from crescendo.simulator.timing import Exponential
from crescendo.simulator.trace import Trace
from crescendo.worker import Worker
from tests.core import planted_clients


def with_client(bug: Any) -> type[Worker]:
    """A worker whose client has a planted bug."""

    class Planted(Worker):
        def __init__(self, terms: Terms, me: int, model: Any, *rest: Any, **more: Any) -> None:
            super().__init__(terms, me, model, *rest, **{**more, "client": bug(terms, me, model)})

    Planted.__name__ = bug.__name__
    return Planted


IgnoresYours = with_client(planted_clients.IgnoresYours)
ThrowsOwnWorkAway = with_client(planted_clients.ThrowsOwnWorkAway)
LosesTheUnfinishedRound = with_client(planted_clients.LosesTheUnfinishedRound)
RunsASlotTooFar = with_client(planted_clients.RunsASlotTooFar)
StopsASlotShort = with_client(planted_clients.StopsASlotShort)
WorksWhileItShouldWait = with_client(planted_clients.WorksWhileItShouldWait)


class DoesNotMoveAlong(Worker):
    """A broadcast in mid-round leaves the local model where it is."""

    def receive(self, broadcast: Broadcast) -> None:
        self.client.receive(broadcast)


class GoesOnAfterACrash(Worker):
    """A crash forgets the counters, but not the local model of the unfinished round."""

    def restart_round(self) -> None:
        self.client.restart_round()
        self.client.start()


class StartsAnew(Worker):
    """Every round starts from the first model."""

    def __init__(self, terms: Terms, me: int, model: Any, *rest: Any, **more: Any) -> None:
        super().__init__(terms, me, model, *rest, **more)
        stepper, first = self._stepper, np.array(model)

        class Loader:
            def load(self, w: Any) -> None:
                stepper.load(first)

            def __getattr__(self, name: str) -> Any:
                return getattr(stepper, name)

        self._stepper = Loader()


class RoundsTwice(Worker):
    """The displacement is rounded to single precision on its way."""

    def finish(self) -> Update:
        update = super().finish()
        rounded = Update(update.round, update.client, update.delta.astype(np.float32).astype(np.float64))
        assert isinstance(self.client, Client)
        self.client._sent[update.round] = rounded.delta
        return rounded


class HearsTheNewsTooEarly(Simulation):
    """A broadcast is taken in before the slots that began ahead of it are computed."""

    def _on_broadcast(self, c: int, what: Any) -> None:
        runner = self._runners[c]
        catch_up, self._run_to = self._run_to, lambda *_: None  # type: ignore[method-assign]
        super()._on_broadcast(c, what)
        self._run_to = catch_up  # type: ignore[method-assign]
        assert runner.plan >= 0


class LosesForGood(Simulation):
    """A lost message is not sent again."""

    def _send(self, update: Update, sent_at: float) -> None:
        if not (self.timing.lose and self._rng.random() < self.timing.lose):
            super()._send(update, sent_at)


class RollsItsOwnDice(Simulation):
    """Latencies come from a generator without a seed."""

    def _travel(self) -> tuple[float, int]:
        return Exponential(1.0).draw(np.random.default_rng()), 1


class NamesTheWrongBroadcast(Simulation):
    """The trace says that a segment was computed on the broadcast before."""

    def _run_to(self, runner: Any, c: int, h: int) -> None:
        super()._run_to(runner, c, h)
        rows = self._record.rows["segments"]
        if rows and rows[-1][4] > -1:
            rows[-1] = (*rows[-1][:4], rows[-1][4] - 1, *rows[-1][5:])


class ExcludesNobody(Simulation):
    """Pairs of absent clients that k passed are not listed."""

    def _exclude(self, c: int, rounds: range) -> None:
        return


class CountsRoundsAheadFromOne(Simulation):
    """max_rounds_ahead is off by one."""

    def _trace(self) -> Trace:
        self._ahead += 1
        return super()._trace()


# -- checks of [thmalg]


def finds_nothing(trace: Trace, terms: Terms) -> int:
    """Every trace passes."""
    return 0


def is_off_by_one_round(trace: Trace, terms: Terms) -> int:
    """Basis b is looked up as the broadcast after b."""
    tables = {name: dict(columns) for name, columns in trace.tables.items()}
    newest = len(tables["broadcasts"]["k"]) - 1
    tables["segments"]["basis"] = np.minimum(tables["segments"]["basis"] + 1, newest)
    return check(Trace(**{**vars(trace), "tables": tables}), terms)


def forgets_own_work(trace: Trace, terms: Terms) -> int:
    """A client's own updates on the way are taken as missing."""
    tables = {name: dict(columns) for name, columns in trace.tables.items()}
    tables["segments"]["client"] = (tables["segments"]["client"] + 1) % terms.clients
    return check(Trace(**{**vars(trace), "tables": tables}), terms)


class RolledAssignment(Terms):
    def assignment(self, i: int) -> Any:
        return np.roll(super().assignment(i), 1)


def has_labels_off_by_one(trace: Trace, terms: Terms) -> int:
    """Every label is that of its neighbour."""
    rolled = RolledAssignment(**{one.name: getattr(terms, one.name) for one in dataclasses.fields(terms) if one.init})
    return check(trace, rolled)
