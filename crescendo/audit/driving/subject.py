"""The audited client and its driver: real workers, on data, start models and draws of the auditor's choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from crescendo.core.arrays import Bools, Floats, Ints, Uints
from crescendo.core.client import Work
from crescendo.core.messages import Broadcast, Settled, Update
from crescendo.data.records import Records, as_records
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.admission import admitted
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.gaussian import word_of
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.noise import SeededSource, Source
from crescendo.worker import Worker
from crescendo_dp.planning.sigmas import Sigmas

Maker = Callable[["Subject", Records, Ints, Source, Floats], Worker]
Sources = Callable[[int, int], Source]  # (seed, client): a source is made anew for every run


def build(subject: Subject, data: Records, rows: Ints, source: Source, model: Floats) -> Worker:
    """A client as a private run makes it: records are looked at one by one before anything else touches them."""
    intercept = subject.objective.traits.intercept
    data, sound = admitted(data, subject.certificate.norm_bound, intercept, subject.labels)
    kept = rows[sound[rows]]
    data, rows = data.take(kept), np.arange(len(kept))  # the rest of the run never sees the others
    mechanism = Private(subject.certificate, subject.me, rows, source)
    terms = subject.certificate.terms
    return Worker(terms, subject.me, model, subject.objective, data, rows, 0, subject.wire, mechanism)


@dataclass(frozen=True, eq=False)
class Subject:
    """One client of a configured run. ``make`` builds its workers, so that another implementation can be audited."""

    certificate: Certificate
    objective: Objective
    me: int
    features: int
    labels: tuple[float, ...]
    wire: str
    make: Maker
    sources: Sources = field(default=SeededSource)
    shared: tuple[int, ...] | None = None  # the rounds in which the client has a share; filled in when first asked for
    _known: dict[tuple[str, int], float] = field(init=False, repr=False, default_factory=dict)

    def scale(self, i: int) -> float:
        """The deviation of round i's noise."""
        return self._remembered("scale", i, self.certificate.noise_scale)

    def sensitivity(self, i: int) -> float:
        """The most that one record may change round i's release."""
        return self._remembered("sensitivity", i, self.certificate.sensitivity)

    def _remembered(self, name: str, i: int, ask: Callable[[int, int], float]) -> float:
        """The certificate's number for round i, asked for once: an audit looks at a round hundreds of times."""
        if (name, i) not in self._known:
            self._known[name, i] = ask(i, self.me)
        return self._known[name, i]

    def source(self, rng: np.random.Generator) -> Source:
        """A new source for a run of this client."""
        return self.sources(int(rng.integers(2**62)), self.me)

    def without_noise(self) -> Subject:
        """Return the subject with the noise switched off, so that it sends the numbers that the noise would hide."""
        return replace(self, certificate=replace(self.certificate, sigma=Sigmas.constant(0.0)))

    def with_step(self, eta: float) -> Subject:
        """The same with a constant step size, certified or not."""
        from crescendo.schedules.steps import ConstantSteps

        terms = replace(self.certificate.terms, steps=ConstantSteps(eta))
        return replace(self, certificate=replace(self.certificate, terms=terms))

    def widened(self, features: int) -> Subject | None:
        """The same objective on another number of features, where it has a field for them."""
        objective: Any = self.objective
        if not is_dataclass(objective) or isinstance(objective, type):
            return None
        if "features" not in (f.name for f in fields(objective)):
            return None
        wide: Any = replace(objective, features=features)
        return replace(self, objective=wide, features=features, certificate=replace(self.certificate, objective=wide))

    def plain_records(self, rng: np.random.Generator, count: int) -> Records:
        """Sound records of all lengths: some are clipped and some are not, and some are longer than the bound allows."""
        features, bound = self.features, self.certificate.norm_bound
        longest = 10.0 if bound is None else math.sqrt(max(bound**2 - float(self.objective.traits.intercept), 0.0))
        x = rng.normal(size=(count, features))
        lengths = longest * 10 ** rng.uniform(-2, 0.3, size=count)
        x *= (lengths / np.linalg.norm(x, axis=1))[:, None]
        return as_records(x, rng.choice(self.labels, count))

    def rounds(self) -> tuple[int, ...]:
        """The rounds in which the client has a share."""
        if self.shared is None:
            terms = self.certificate.terms
            found = tuple(i for i in range(terms.rounds) if terms.share(i, self.me))
            if not found:
                raise UsageError(f"client {self.me} has no share in any round, so there is nothing to audit")
            object.__setattr__(self, "shared", found)
        assert self.shared is not None
        return self.shared

    def pairs(self) -> list[tuple[int, ...]]:
        """Two rounds in a row in which the client has a share: the first, one in the middle, the last."""
        shared = self.rounds()
        middle = len(shared) // 2
        return list(dict.fromkeys([shared[:2], shared[middle : middle + 2], shared[-2:]]))

    def releases(
        self,
        data: Records,
        rows: Ints,
        source: Source,
        rounds: tuple[int, ...],
        starts: tuple[Floats, ...],
        disturb: Floats | None = None,
    ) -> list[Floats]:
        """What is sent in each of ``rounds``, begun at the given models."""
        driver = Driver(self, data, rows, source, starts[0])
        sent = []
        for i, start in zip(rounds, starts, strict=True):
            driver.begin(i, start)
            sent.append(driver.run(i, disturb))
        return sent


@dataclass(frozen=True, eq=False)
class Draw:
    """Which records are in a round, and their tags. ``sound`` says which of all records have a finite x and y."""

    members: Ints
    tags: Floats
    sound: Bools | None = None

    @classmethod
    def none(cls) -> Draw:
        return cls(np.empty(0, np.int64), np.empty(0))

    def among(self, records: int) -> Draw:
        """The draw for a client that left unsound records out, and so has fewer."""
        if self.sound is None or records == len(self.sound) or records != self.sound.sum():
            return self
        kept = self.sound[self.members]
        return Draw((np.cumsum(self.sound) - 1)[self.members[kept]], self.tags[kept])


class Script:
    """A source with scripted answers: draws by round, and no noise except ``push``, in units of its scale.

    ``behind`` supplies the rest. With draws that is the noise; without, it is the members, each with a tag of its own.
    """

    simulated = True

    def __init__(
        self, draws: dict[int, Draw] | None = None, behind: Source | None = None, push: dict[int, Floats] | None = None
    ) -> None:
        self._draws, self._behind, self._push = draws, behind, push or {}
        self._now = Draw.none()

    def members(self, i: int, records: int, rate: float) -> Ints:
        if self._draws is None:
            assert self._behind is not None
            members = self._behind.members(i, records, rate)
            self._now = Draw(members, (members + 0.5) / max(records, 1))
            return members
        self._now = self._draws.get(i, Draw.none()).among(records)
        return self._now.members

    def tags(self, i: int, count: int) -> Floats:
        tags = self._now.tags
        if self._draws is None and count != len(tags):
            assert self._behind is not None
            return self._behind.tags(i, count)
        return np.resize(tags, count) if len(tags) else np.linspace(0.0, 1.0, count, endpoint=False)

    def words(self, i: int, size: int) -> Uints:
        if self._behind is not None and self._draws is not None:
            return self._behind.words(i, size)
        return word_of(np.resize(self._push[i], size) if i in self._push else np.zeros(size))

    def more(self, i: int, number: int) -> Iterator[int]:
        if self._behind is not None and self._draws is not None:
            return self._behind.more(i, number)
        return itertools.repeat(2**63)


class Silent(Exception):
    """A round sent no message."""


class Driver:
    """One worker, led from round to round."""

    def __init__(self, subject: Subject, data: Records, rows: Ints, source: Source, start: Floats) -> None:
        self.subject, self._epoch = subject, 0
        # a record that is not among the rows is not there at all: whatever looks at all the data must not see it
        self.worker = subject.make(subject, data.take(rows), np.arange(len(rows)), source, start)
        self.sent: list[Update] = []

    def begin(self, i: int, start: Floats) -> None:
        """A broadcast with all that was sent brings the client to round i and to this model."""
        self.skip_to(i)
        if i == 0:
            return  # it was made with this model
        self.tell(start, i, i)

    def skip_to(self, i: int) -> None:
        """The rounds before i that were not sent are void."""
        if self.worker.client.round < i:
            self.worker.client.resume(i)

    def tell(self, model: Floats, below: int, k: int) -> None:
        """A broadcast that has this client's rounds below ``below``."""
        self._epoch += 1
        self.worker.receive(Broadcast(model, k, Settled(below), self._epoch))

    def tell_again(self, model: Floats, below: int) -> None:
        """A broadcast from before all others."""
        self.worker.receive(Broadcast(model, 0, Settled(below), 0))

    def run(self, i: int, disturb: Floats | None = None) -> Floats:
        """Run round i to its end and return what was sent, decoded; ``disturb`` is broadcast in the middle of it."""
        work = self.worker.next()
        if not isinstance(work, Work) or work.round != i:
            raise UsageError(f"the audited client does not work on round {i}: {work}")
        first = work.slots // 2
        if disturb is not None:
            self.worker.run(first)
            self.tell(disturb, i, min(i + 1, self.subject.certificate.terms.rounds))
        else:
            first = 0
        self.worker.run(work.slots - first)
        return self.finish(i)

    def finish(self, i: int) -> Floats:
        """Finish round i, whose slots were all run, and return its release before the division for a mean."""
        update: Update | None = self.worker.finish()
        if update is None:
            raise Silent(f"round {i} sent nothing")
        self.sent.append(update)
        low, high = self.subject.certificate.terms.block(i, self.subject.objective.size)
        if len(update.delta) != high - low:
            raise Silent(f"round {i} sent {len(update.delta)} numbers where the terms say {high - low}")
        return np.asarray(update.delta, dtype=np.float64) / self.subject.certificate.terms.combined

    def may_go_on(self, i: int) -> bool:
        """Whether round i may begin on what the client has heard so far."""
        work = self.worker.next()
        return isinstance(work, Work) and work.round == i
