"""Leads a worker through a run as a server would, and computes the releases that it must send.

Broadcasts come before rounds, within them and not at all, some of them stale; rounds are restarted; draws come from the source or
the auditor. `literal` computes the expected release from the source's numbers and earlier releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from crescendo.audit.driving.literal import Displacement, Mirror, bounded, normal_numbers, public_grid
from crescendo.audit.driving.subject import Draw, Driver, Silent, Subject
from crescendo.audit.driving.tap import Tap
from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.core.client import Work
from crescendo.core.messages import Update
from crescendo.data.records import Records
from crescendo.errors import CrescendoError

_NEAR = 1e-9  # of the sensitivity, for each record drawn: what float arithmetic in another order may change
_SPREAD = 0.3  # of the models that are broadcast


@dataclass
class Faults:
    """Deterministic faults: the first of each kind."""

    found: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, says: str) -> None:
        self.found.setdefault(kind, says)

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Note a run with ``what`` that sends nothing or stops with an error, and let the audit continue."""
        try:
            yield
        except Silent as error:
            self.note("messages", f"{error}, with {what}")
        except Exception as error:
            self.note("runs to the end", f"{what} stopped the run: {error}")


@dataclass(frozen=True, eq=False)
class Released:
    """One release, the formula's result, and the numbers from the source."""

    i: int
    sent: Floats
    formula: Displacement
    start: Floats
    draw: Draw
    asked: tuple[int, float] | None  # of how many records, and at what rate, the source drew by itself
    words: Uints | None  # that the source gave for the noise
    scale: float
    near: float  # how far the formula in floats may be off
    combined: bool  # what was sent was multiplied by 1/n, and here by n again

    @cached_property
    def grid(self) -> float:
        return public_grid(self.scale)

    @cached_property
    def noisy(self) -> Floats:
        """The release without its public part."""
        return self.sent - self.formula.public

    @cached_property
    def blur(self) -> float:
        """How far ``noisy`` is from what was rounded to the grid, in steps of the grid: floats were added, or multiplied."""
        if not self.formula.public.any() and not self.combined:
            return 0.0
        return (self.formula.rounding + self.added) / self.grid

    @property
    def added(self) -> float:
        """The error of at most seven roundings: of the sum, of a mean made and undone, and of the auditor's differences."""
        return 2.0**-50 * max(float(np.abs(part).max()) for part in (self.sent, self.formula.public))

    def departs(self) -> str | None:
        """Describe how the release differs from the formula with the source's noise on the grid; None if it does not."""
        if self.words is None:
            return f"round {self.i} did not ask its source for {len(self.sent)} noise numbers of its own"
        z, spread = normal_numbers(self.words)
        apart = np.abs(self.noisy - self.formula.hidden - self.scale * z)
        allowed = self.grid * (0.5 + 1e-6 + self.blur) + self.near + self.scale * spread
        if (apart <= allowed).all():
            return None
        worst = int(np.argmax(apart - allowed))
        return (
            f"round {self.i}, a draw of {len(self.draw.members)}: coordinate {worst} is {float(self.sent[worst])!r}, which is "
            f"{apart[worst] / self.scale:.4g} of the noise's scale away from what the formula and the source make it, where "
            f"rounding explains {allowed[worst] / self.scale:.4g}"
        )

    def differs(self) -> str | None:
        """Describe how a release without noise differs from the formula; None if it does not."""
        apart = np.abs(self.noisy - self.formula.hidden)
        allowed = self.near + self.formula.rounding + self.added
        if (apart <= allowed).all():
            return None
        worst = int(np.argmax(apart))
        due = float(self.formula.public[worst] + self.formula.hidden[worst])
        return (
            f"round {self.i}, a draw of {len(self.draw.members)}, noise off: coordinate {worst} is {float(self.sent[worst])!r} "
            f"and the formula makes it {due!r}, which is {apart[worst]:.3g} away where rounding explains {allowed:.3g}"
        )

    def off_grid(self) -> str | None:
        """Describe a number that is not a multiple of the public grid; None if there is none."""
        units = self.noisy / self.grid
        rest = np.abs(units - np.rint(units))
        if self.blur >= 0.2 or (rest <= self.blur).all():
            return None
        return f"round {self.i} sent a number {rest.max():.3g} of a step off the public grid of {self.grid:.3g}"


def led(
    subject: Subject,
    tap: Tap,
    data: Records,
    rng: np.random.Generator,
    rounds: Ints,
    faults: Faults,
    wild: bool = False,
) -> Iterator[Released]:
    """Yield the releases of ``rounds`` one by one, noting every fault except in their numbers.

    With ``wild`` the server also sends models that are not finite and models that are much too long.
    """
    server = _Server(subject, tap, data, rng, [int(i) for i in rounds], wild)
    certificate, me = subject.certificate, subject.me
    due = bounded(certificate, data)
    for i in (int(i) for i in rounds):
        aside = server.slots(i, faults)
        start = server.mirror.start()
        sent, update = server.finish(i, aside)
        _check_message(update, i, me, subject.wire, faults)
        draw = _drawn(subject, tap, i, len(data), faults)
        near = subject.sensitivity(i) * (certificate.slack + _NEAR * (1 + len(draw.members)))
        formula = Displacement.of(certificate, me, due, start, i, draw.members, draw.tags)
        asked, words = None if tap.chose(i) else tap.asked.get(i), tap.noise(i, len(sent))
        scale, is_mean = subject.scale(i), certificate.terms.combine == "mean"
        if scale:
            formula = formula.cut(public_grid(scale))
        yield Released(i, sent, formula, start, draw, asked, words, scale, near, is_mean)


class _Server:
    """Broadcasts random models, and computes the client's next start model from them and from its updates."""

    def __init__(
        self, subject: Subject, tap: Tap, data: Records, rng: np.random.Generator, rounds: list[int], wild: bool
    ) -> None:
        self._subject, self._rng, self._wild = subject, rng, wild
        # not so large that floats could not carry the noise beside it: the public part of a release is added after the noise
        some = rounds[:: max(1, len(rounds) // 20)]
        least = min(subject.scale(i) or subject.sensitivity(i) for i in some)
        self._spread = min(_SPREAD, least * 2.0**18)
        model = self._model()
        self._driver = Driver(subject, data, np.arange(len(data)), tap, model)
        self.mirror = Mirror(subject.certificate, model)

    def _model(self) -> Floats:
        return np.asarray(self._rng.normal(size=self._subject.objective.size) * self._spread)

    def _offend(self, i: int, faults: Faults) -> None:
        """Send broadcasts that must be refused, and a stale one that must change nothing."""
        size, rounds, below = self._subject.objective.size, self._subject.certificate.terms.rounds, self.mirror.below
        for what, model, received, k in (
            ("that is not finite", np.full(size, np.nan), below, i),
            ("of another length", np.zeros(size + 1), below, i),
            ("beyond the last round", np.zeros(size), below, rounds + 1),
            ("that has rounds beyond the last", np.zeros(size), rounds + 1, i),
            ("that has a round which was not sent", np.zeros(size), i + 1, i),
        ):
            try:
                self._driver.tell(model, received, k)
            except CrescendoError:
                continue
            faults.note("messages", f"a broadcast {what} was taken in before round {i}")
        self._driver.tell_again(self._model(), below)

    def _tell(self, below: int, k: int) -> Floats:
        model = self._model()
        if self._wild and self._rng.random() < 0.3:
            longest = self._subject.certificate.model_bound
            longer: Floats = model / np.linalg.norm(model) * float(self._rng.choice([100.0 * longest, 1e300]))
            model = longer
        self._driver.tell(model, below, min(k, self._subject.certificate.terms.rounds))
        return model

    def slots(self, i: int, faults: Faults) -> Floats | None:
        """Run all slots of round i, in parts. Return a model that was broadcast in between, to be received after the round."""
        driver, worker, rng = self._driver, self._driver.worker, self._rng
        driver.skip_to(i)
        if self._wild:
            self._offend(i, faults)
        if rng.random() < 0.3 or not driver.may_go_on(i):
            below = max(self.mirror.below, i - int(rng.integers(3)))
            self.mirror.told(self._tell(below, i), below)
        slots, work = self._subject.certificate.terms.share(i, self._subject.me), worker.next()
        if not isinstance(work, Work) or (work.round, work.slots) != (i, slots):
            faults.note("messages", f"round {i} has {slots} slots and the client says {work}")
        if rng.random() < 0.1:
            worker.run(slots // 2)
            worker.restart_round()
        worker.run(slots // 2)
        if not np.array_equal(np.asarray(worker.client.frame), self.mirror.view()):
            faults.note("start models", f"round {i} begins at a model that is not made of what was sent and received")
        aside = self._tell(i, i + 1) if rng.random() < 0.2 else None
        worker.run(slots - slots // 2)
        return aside

    def finish(self, i: int, aside: Floats | None) -> tuple[Floats, Update]:
        """End round i; return the release, decoded, and the update itself."""
        sent = self._driver.finish(i)
        update = self._driver.sent.pop()  # not kept: a run has many
        self.mirror.sends(i, update.delta)
        if aside is not None:
            self.mirror.told(aside, i)
        return sent, update


def _check_message(update: Update, i: int, me: int, wire: str, faults: Faults) -> None:
    """Note a message that holds anything but its round, its client and its numbers."""
    if type(update) is not Update or (update.round, update.client) != (i, me):
        faults.note(
            "messages", f"round {i} of client {me} sent a {type(update).__name__} of {(update.round, update.client)}"
        )
    due = np.dtype("float32" if wire == "bfloat16" else wire)
    if update.delta.dtype != due:
        faults.note("messages", f"round {i} sent {update.delta.dtype} where the wire has {wire}")


def _drawn(subject: Subject, tap: Tap, i: int, records: int, faults: Faults) -> Draw:
    """Return the draw of round i; note a draw at another rate than the certified one, or not over all records."""
    rate = subject.certificate.rate(i, subject.me)
    draw, asked = tap.drew(i), tap.asked.get(i)
    if draw is None or asked is None:
        faults.note("draws asked for", f"round {i} did not ask its source for a draw of records and their tags")
        return Draw.none()
    if asked != (records, rate):
        faults.note(
            "draws asked for",
            f"round {i} drew from {asked[0]} records at rate {asked[1]:.6g}; certified are {records} at {rate:.6g}",
        )
    return draw
