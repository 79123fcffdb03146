"""What a client does with its records in a round, and what of it leaves the client.

`Plain` is no privacy: records drawn with replacement, a moving model, the displacement sent as it is. `Private` makes
every release a Poisson-subsampled Gaussian: each record is in a round with a public rate, and noise in proportion to
the most that one record can change is added once. What one record can change is proved by the `Certificate` (see
`crescendo.privacy.mechanisms.certificate`); a `Private` cannot be made without one.

Both are per client, and are all that a `Worker` knows about privacy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.random import Purpose, aim, stream
from crescendo.core.terms import Terms
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective, Slots, Stepper
from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.noise import Source, poisson_slots
from crescendo.privacy.mechanisms.reach import SHORTENED

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.privacy.mechanisms.certificate import Certificate


class Mechanism(Protocol):
    """One client's way from records to releases."""

    def check(self, terms: Terms, objective: Objective) -> None:
        """Refuse terms and an objective that this mechanism was not made for."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        """What computes a round."""

    def start(self, model: Floats) -> Floats:
        """Where a round begins that would begin at ``model``."""

    def draw(self, i: int, size: int) -> Slots:
        """Draw round i for a model of ``size`` numbers, and lay it out."""

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        """Lay out round i with these records, which were drawn for it before."""

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        """What is sent of round i, which began at ``start`` and was run by ``stepper``. Called once a round."""

    saturates: bool
    """Whether a number too large for the wire is sent as the wire's largest: a private release must never fail."""


class Plain:
    """No privacy: one record a slot, drawn uniformly with replacement; what was computed is what is sent."""

    saturates = False  # a run that diverges is stopped

    def __init__(self, terms: Terms, me: int, rows: Ints, seed: int) -> None:
        self._terms, self._me, self._rows, self._seed = terms, me, rows, seed
        self._generator = stream(seed, Purpose.SAMPLE)

    def check(self, terms: Terms, objective: Objective) -> None:
        pass

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return objective.stepper(data)

    def start(self, model: Floats) -> Floats:
        return model

    def draw(self, i: int, size: int) -> Slots:
        rng = aim(self._generator, self._seed, Purpose.SAMPLE, self._me, i)
        drawn = rng.integers(0, len(self._rows), self._terms.share(i, self._me))
        return self.laid_out(i, size, self._rows[drawn], None)

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        etas, block = self._terms.etas(i, self._me), self._terms.moving(i, size)
        return Slots(rows, etas, ends, block, factor=float(self._terms.blocks))

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        block = slice(*self._terms.block(i, len(start)))
        return start[block] - stepper.read()[block]


class Private:
    """A certified mechanism on one client's records."""

    saturates = True

    def __init__(self, certificate: Certificate, me: int, rows: Ints, source: Source) -> None:
        self._certificate, self._terms, self._me = certificate, certificate.terms, me
        self._rows, self._source = rows, source

    def check(self, terms: Terms, objective: Objective) -> None:
        """What was certified is what runs, or the epsilon would be about something else."""
        if terms != self._terms or objective != self._certificate.objective:
            raise UsageError(
                "these are not the terms and the objective that the mechanism was certified for; certify again"
            )

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return self._certificate.kind.stepper(objective, data)

    def start(self, model: Floats) -> Floats:
        """The model, shortened to the length that the certificate is about: whatever a server sends, the round is certified.

        Nothing is told by that: a start model is a function of releases, and so is the shortened one.
        """
        bound = self._certificate.model_bound
        with np.errstate(over="ignore"):
            length = _length(model)
        if length <= bound:
            return model
        if length == np.inf:  # only its square is too large
            model = model / np.abs(model).max()
            length = _length(model)
        return model * (bound / length)

    def draw(self, i: int, size: int) -> Slots:
        rate, slots = self._certificate.rate(i, self._me), self._terms.share(i, self._me)
        members, ends = poisson_slots(self._source, i, len(self._rows), rate, slots)
        return self.laid_out(i, size, self._rows[members], ends)

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        if ends is None:
            raise UsageError("the records of a private round are in public slots, and it was not said in which")
        return Slots(
            rows=rows,
            etas=self._terms.etas(i, self._me),
            ends=ends,
            block=self._terms.moving(i, size),
            factor=float(self._terms.blocks),
            clip=self._certificate.clip if self._certificate.kind.clips_records else None,
            unit=self._certificate.unit,
            layers=self._certificate.layers,
        )

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        """What depends on records, with noise; what is public is added after it."""
        length = _length(start)
        if not length <= SHORTENED * self._certificate.model_bound:
            raise UsageError(
                f"round {i} began at a model of length {length:.3g}, beyond the {self._certificate.model_bound:.3g} for which "
                f"rounding was certified; begin it where start() says"
            )
        with np.errstate(all="ignore"):  # a model of somebody's own may have set numpy to raise
            hidden, public = self._certificate.kind.parts(self._certificate, i, start, stepper)
            return self._noised(i, hidden) + public

    def _noised(self, i: int, hidden: Floats) -> Floats:
        if (
            self._certificate.sigma(i) == 0
        ):  # a run to compare with: nothing certifies it, and its events cost everything
            return hidden
        words, scale = self._source.words(i, len(hidden)), self._certificate.noise_scale(i, self._me)
        return noised(hidden, scale, words, lambda number: self._source.more(i, number))


def _length(model: Floats) -> float:
    """The norm, bit for bit that of numpy, whose own function takes three times as long on a small model."""
    return math.sqrt(float(np.dot(model, model)))
