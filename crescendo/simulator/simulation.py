"""A federation on a virtual clock: few Python events, long compiled segments, and one trace for one seed.

Theory of operation
-------------------

A client's slots take 1/speed seconds each. The simulator knows when the client will reach the end of its round or its
delay bound, and computes all slots up to then in one call. Only a broadcast cuts this short: the client catches up with
the slots that began before it arrived, and then moves to the new model. A slot under way keeps the model it began with.

Events are ordered by time; events at the same instant run in the order in which they were scheduled. A lost message is
delayed by the time of its retransmissions. A crash loses only the unfinished round.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, Literal

import numpy as np

from crescendo.core.arrays import Floats, Vector
from crescendo.core.client import Done, Work
from crescendo.core.messages import Broadcast, DuplicateUpdate, Update
from crescendo.core.random import Purpose, stream
from crescendo.core.sides import CallingServer, ServerSide, TimedServer, WorkerSide
from crescendo.core.terms import Terms
from crescendo.core.vectors import message_bytes, rounded
from crescendo.errors import UsageError
from crescendo.simulator.timing import Timing
from crescendo.simulator.trace import Recorder, Trace

MOST_RESENDS = 10_000  # of one message: no sensible loss rate reaches this bound
MOST_CRASHES = 1_000  # of one client in one round


@dataclass(frozen=True, eq=False)
class Moment:
    """The state of the federation just after k has risen: the progress of a run."""

    k: int
    gradients: int
    seconds: float
    model: Floats
    bytes_up: int
    bytes_down: int
    broadcasts: int


@dataclass(eq=False)
class _Runner:
    """One client on the clock. Slot h begins at ``began + (h - first) / speed``; undisturbed it will reach slot ``goal``."""

    worker: WorkerSide
    speed: float
    state: Literal["idle", "busy", "waiting", "done", "down"] = "idle"
    began: float = 0.0
    first: int = 0
    goal: int = 0
    plan: int = 0  # number of the current plan; the end of an older plan is ignored
    since: float = 0.0  # start of its wait or its absence
    crashes: int = 0  # since its last finished round
    heard: dict[int, int] = field(default_factory=lambda: {0: -1})  # k -> index of the broadcast that brought it

    def when(self, h: int) -> float:
        return self.began + (h - self.first) / self.speed

    def begun_before(self, now: float) -> int:
        """Count the slots that began before ``now``. A slot within rounding of ``now`` counts as later: it gets the news."""
        rounding = 8 * 2.0**-52 * max(1.0, now * self.speed)
        return min(self.goal, self.first + max(0, math.ceil((now - self.began) * self.speed - rounding)))


class Simulation:
    """Drives the workers and the server of any algorithm through one run."""

    def __init__(
        self,
        terms: Terms,
        workers: Sequence[WorkerSide],
        server: ServerSide,
        timing: Timing,
        seed: int,
        wire: str = "float32",
        observe: Callable[[Moment], None] | None = None,
    ) -> None:
        if not len(workers) == len(timing.speeds) == terms.clients:
            raise UsageError(
                f"{terms.clients} clients need as many workers and speeds; got {len(workers)} and {len(timing.speeds)}"
            )
        self.terms, self.timing, self.server = terms, timing, server
        self.now = 0.0
        self._runners = [_Runner(worker, speed) for worker, speed in zip(workers, timing.speeds, strict=True)]
        self._queue: list[tuple[float, int, Callable[[int, Any], None], int, Any]] = []
        self._order = itertools.count()
        self._rng = stream(seed, Purpose.TIMING)
        self._wire, self._tell, self._record = wire, observe, Recorder()
        self._gradients = self._broadcasts = self._waits = self._ahead = 0
        self._delay_used = 0.0
        self._finished_at = 0.0
        self._bytes_up, self._bytes_down = (
            0,
            terms.clients * message_bytes(len(server.model), wire),
        )  # every client gets the first model
        self._away: set[int] = set()  # declared absent
        self._calling = server if isinstance(server, CallingServer) else None
        self._timed = server if isinstance(server, TimedServer) else None
        self._newest: Vector | None = None  # the latest broadcast model, then its rounded form
        self._rounded: Vector = np.zeros(0)

    def run(self) -> Trace:
        """Simulate until no event is left."""
        self._show()
        self._set_deadline()
        for c, start in enumerate(self.timing.starts):
            self._at(start, self._on_begin, c)
            self._plan_crash(c, start)
        while self._queue:
            self.now, _, act, c, what = heappop(self._queue)
            act(c, what)
        if not self.server.finished:
            waiting = [c for c, runner in enumerate(self._runners) if runner.state == "waiting"]
            raise UsageError(
                f"deadlock: round {self.server.k} of {self.terms.rounds} cannot be completed, because clients {waiting} must "
                f"wait; the schedule is not live, choose one with a certificate"
            )
        return self._trace()

    def _at(self, when: float, act: Callable[[int, Any], None], c: int, what: Any = None) -> None:
        heappush(self._queue, (when, next(self._order), act, c, what))

    # -- a client at work ----------------------------------------------------------------------------------------------

    def _on_begin(self, c: int, _: Any = None) -> None:
        """Start client c on the work it may do before the next broadcast arrives."""
        runner = self._runners[c]
        todo = runner.worker.next()
        if isinstance(todo, Work):
            runner.state, runner.began, runner.first = "busy", self.now, todo.first
            self._plan(runner, c, todo.first + todo.slots)
        elif isinstance(todo, Done):
            runner.state = "done"
        else:
            runner.state, runner.since = "waiting", self.now

    def _end_wait(self, runner: _Runner, c: int) -> None:
        """Record a wait; a client released at the instant it asked has not waited."""
        if self.now > runner.since:
            self._waits += 1
            self._record.add("waits", c, runner.since, self.now)

    def _plan(self, runner: _Runner, c: int, goal: int) -> None:
        runner.goal, runner.plan = goal, runner.plan + 1
        self._at(runner.when(goal), self._on_goal, c, runner.plan)

    def _on_goal(self, c: int, plan: int) -> None:
        """Compute up to the goal: the end of the round, or the last slot that the delay bound allows."""
        runner = self._runners[c]
        if plan != runner.plan:
            return
        self._run_to(runner, c, runner.goal)
        if runner.worker.round_is_full:
            runner.crashes = 0
            self._send(runner.worker.finish(), self.now)
        self._on_begin(c)

    def _run_to(self, runner: _Runner, c: int, h: int) -> None:
        """Compute the slots up to h on the client's current model."""
        client = runner.worker.client
        first, round, k = client.h, client.round, client.k
        if h <= first:
            return
        runner.worker.run(h - first)
        if self._calling is None:  # otherwise there is no broadcast to all that a round could be ahead of
            self._ahead = max(self._ahead, round - k)
        if self.terms.tau is not None:
            # t_delay grows by one per slot and tau by at most one, so the last slot has the largest ratio
            t_glob, t_delay = self.terms.clock(round, k, self.terms.share(round, c), h - 1)
            self._delay_used = max(self._delay_used, t_delay / self.terms.permitted(t_glob))
        self._record.add("segments", c, round, first, h, runner.heard[k], runner.when(first), runner.when(h))

    # -- messages ------------------------------------------------------------------------------------------------------

    def _travel(self) -> tuple[float, int]:
        """Draw a message's travel time, and the number of times it is sent until it arrives."""
        time, sendings = self.timing.latency.draw(self._rng), 1
        while self.timing.lose and self._rng.random() < self.timing.lose and sendings < MOST_RESENDS:
            time, sendings = time + self.timing.resend, sendings + 1
        return time, sendings

    def _copies(self) -> int:
        return 1 + bool(self.timing.duplicate and self._rng.random() < self.timing.duplicate)

    def _send(self, update: Update, sent_at: float) -> None:
        for _ in range(self._copies()):
            time, sendings = self._travel()
            self._bytes_up += sendings * message_bytes(len(update.delta), self._wire)
            self._at(self.now + time, self._on_update, update.client, (update, sent_at))

    def _on_update(self, c: int, what: tuple[Update, float]) -> None:
        update, sent_at = what
        before = self.server.k
        try:
            self.server.receive(update)
        except DuplicateUpdate:
            return
        self._gradients += self.terms.share(update.round, c)
        self._record.add("updates", update.round, c, sent_at, self.now)
        self._finished_at = self.now
        self._tell_clients(before)

    def _tell_clients(self, before: int) -> None:
        risen = self.server.k > before
        for c in sorted(self._away) if risen else ():
            self._exclude(c, range(before, self.server.k))
        if self._calling is not None:
            for c in self._calling.called():  # after every other arrival of this instant
                self._at(self.now, self._on_call, c)
        elif risen:
            self._broadcast(range(len(self._runners)))
        if risen:
            self._finished_at = self.now
            self._show()
            self._set_deadline()

    def _on_call(self, c: int, _: Any) -> None:
        self._broadcast([c])

    def _broadcast(self, clients: Sequence[int]) -> None:
        self._broadcasts += 1
        index = self._new_broadcast()
        for c in clients:
            if self._runners[c].state == "down":
                continue
            broadcast = self._on_the_wire(self.server.broadcast(c))
            for _ in range(self._copies()):
                time, sendings = self._travel()
                self._bytes_down += sendings * message_bytes(len(broadcast.model), self._wire)
                self._at(self.now + time, self._on_broadcast, c, (index, broadcast))

    def _set_deadline(self) -> None:
        if self._timed is not None and self._timed.deadline is not None and not self.server.finished:
            self._at(self.now + self._timed.deadline, self._on_deadline, -1, self.server.k)

    def _on_deadline(self, _: int, k: int) -> None:
        if self._timed is not None and self.server.k == k:
            self._timed.expire()
            self._tell_clients(k)

    def _new_broadcast(self) -> int:
        """Record the contents of a broadcast made now, and return its index."""
        self._record.add("broadcasts", self.server.k, len(self._record.rows["updates"]), self.now)
        return len(self._record.rows["broadcasts"]) - 1

    def _on_the_wire(self, broadcast: Broadcast) -> Broadcast:
        """Return the broadcast with its model rounded to the wire type; a model for all clients is rounded once."""
        if broadcast.model is not self._newest:
            self._newest, self._rounded = broadcast.model, rounded(broadcast.model, self._wire)
        return replace(broadcast, model=self._rounded)

    def _on_broadcast(self, c: int, what: tuple[int, Broadcast]) -> None:
        runner, (index, broadcast) = self._runners[c], what
        client = runner.worker.client
        if runner.state == "down" or not client.is_news(broadcast):
            return
        i = client.round
        if runner.state == "busy" and runner.begun_before(self.now):
            if self.terms.whole_rounds:
                runner.worker.begin()  # the round keeps its start model; the news waits for the next round
            else:
                self._run_to(runner, c, runner.begun_before(self.now))
        self._hear(runner, index, broadcast)
        if runner.state == "waiting":
            self._end_wait(runner, c)
            self._on_begin(c)
        elif runner.state == "busy" and client.round != i:  # it gave up the round
            runner.plan += 1
            self._on_begin(c)
        elif runner.state == "busy":
            todo = runner.worker.next()
            goal = todo.first + todo.slots if isinstance(todo, Work) else 0
            if goal > runner.goal:
                self._plan(runner, c, goal)

    def _hear(self, runner: _Runner, index: int, broadcast: Broadcast) -> None:
        runner.heard.setdefault(broadcast.k, index)
        runner.worker.receive(broadcast)
        for old in [k for k in runner.heard if k < runner.worker.client.k]:
            del runner.heard[old]

    # -- crashes -------------------------------------------------------------------------------------------------------

    def _plan_crash(self, c: int, after: float) -> None:
        if self.timing.crashes is not None:
            self._at(after + self._rng.exponential(self.timing.crashes.every), self._on_crash, c)

    def _on_crash(self, c: int, _: Any) -> None:
        runner, crashes = self._runners[c], self.timing.crashes
        if crashes is None or self.server.finished or runner.state == "done":
            return
        if runner.state == "waiting":
            self._end_wait(runner, c)
        runner.crashes += 1
        if runner.crashes > MOST_CRASHES:
            raise UsageError(
                f"client {c} crashed {MOST_CRASHES} times in one round; let it run longer between two crashes"
            )
        runner.worker.restart_round()
        runner.state, runner.plan, runner.since = "down", runner.plan + 1, self.now
        self._at(self.now + self._rng.exponential(crashes.down), self._on_return, c)
        if self.timing.absent_after is not None:
            self._at(self.now + self.timing.absent_after, self._on_silence, c, runner.plan)

    def _on_silence(self, c: int, plan: int) -> None:
        runner, before = self._runners[c], self.server.k
        if runner.state == "down" and runner.plan == plan:
            self._away.add(c)
            self.server.absent(c)
            self._tell_clients(before)

    def _on_return(self, c: int, _: Any) -> None:
        """Bring client c back with its state on disk: it gets the news and resends its unacknowledged updates."""
        runner, before = self._runners[c], self.server.k
        self._record.add("absences", c, runner.since, self.now)
        if c in self._away:
            self._away.discard(c)
            runner.worker.client.resume(self.server.back(c, runner.worker.client.round - 1))
        runner.state = "idle"
        self._tell_clients(before)
        news = self.server.broadcast(c)
        if runner.worker.client.is_news(news):
            self._bytes_down += message_bytes(len(news.model), self._wire)
            self._hear(runner, self._new_broadcast(), self._on_the_wire(news))
        for update in runner.worker.client.unacknowledged():
            self._send(update, self.now)
        self._on_begin(c)
        self._plan_crash(c, self.now)

    def _exclude(self, c: int, rounds: range) -> None:
        """Exclude an absent client's open rounds, which k has passed, from the consistency guarantee."""
        settled = self.server.broadcast(c).yours
        for i in rounds:
            if i not in settled and self.terms.share(i, c):
                self._record.add("excluded", i, c)

    # -- the output ----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        if self._tell is not None:
            self._tell(
                Moment(
                    self.server.k,
                    self._gradients,
                    self.now,
                    self.server.model,
                    self._bytes_up,
                    self._bytes_down,
                    self._broadcasts,
                )
            )

    def _trace(self) -> Trace:
        return Trace(
            model=self.server.model,
            gradients=self._gradients,
            rounds=self.server.k,
            broadcasts=self._broadcasts,
            bytes_up=self._bytes_up,
            bytes_down=self._bytes_down,
            max_rounds_ahead=self._ahead,
            max_delay_used=None if self.terms.tau is None else self._delay_used,
            waits=self._waits,
            late=self.server.late,
            virtual_seconds=self._finished_at,
            tables=self._record.tables(),
        )
