"""Mechanisms on one client's records: how a round draws records, and which part of its result leaves the client.

`Plain` gives no privacy: it draws records with replacement and sends the displacement of a moving model unchanged. `Private`
makes every release a Poisson-subsampled Gaussian: each record is in a round with a public rate, and the release gets noise
once, in proportion to the sensitivity. The `Certificate` proves that sensitivity (see
`crescendo.privacy.mechanisms.certificate`), and a `Private` cannot be made without one.

A mechanism serves one client and is all that a `Worker` knows about privacy.
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
    """The steps from one client's records to its releases."""

    def check(self, terms: Terms, objective: Objective) -> None:
        """Refuse terms and objectives other than those that this mechanism was made for."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        """Return the stepper that computes a round."""

    def start(self, model: Floats) -> Floats:
        """Return the start model of a round, given the client's current ``model``."""

    def draw(self, i: int, size: int) -> Slots:
        """Draw round i for a model of ``size`` numbers, and lay it out."""

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        """Lay out round i with records that were drawn for it earlier."""

    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        """Return the update of round i, which ``stepper`` ran from ``start``. Called once per round."""

    saturates: bool
    """True if a number too large for the wire is sent as the wire's largest: a private release must never fail."""


class Plain:
    """No privacy: draws one record per slot, uniformly with replacement, and sends the exact displacement."""

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
        """Refuse to run terms or an objective other than the certified ones: the epsilon would not hold."""
        if terms != self._terms or objective != self._certificate.objective:
            raise UsageError(
                "these are not the terms and the objective that the mechanism was certified for; certify again"
            )

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return self._certificate.kind.stepper(objective, data)

    def start(self, model: Floats) -> Floats:
        """Shorten the model to the certified length, so that the round is certified whatever a server sends.

        That reveals nothing: a start model is a function of releases, and so is the shortened one.
        """
        bound = self._certificate.model_bound
        with np.errstate(over="ignore"):
            length = _length(model)
        if length <= bound:
            return model
        if length == np.inf:  # only its square overflows
            model = model / np.abs(model).max()
            length = _length(model)
        return model * (bound / length)

    def draw(self, i: int, size: int) -> Slots:
        rate, slots = self._certificate.rate(i, self._me), self._terms.share(i, self._me)
        members, ends = poisson_slots(self._source, i, len(self._rows), rate, slots)
        return self.laid_out(i, size, self._rows[members], ends)

    def laid_out(self, i: int, size: int, rows: Ints, ends: Ints | None) -> Slots:
        if ends is None:
            raise UsageError("a private round needs the slots of its records; pass ends")
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
        """Add noise to the part that depends on records, then add the public part."""
        length = _length(start)
        if not length <= SHORTENED * self._certificate.model_bound:
            raise UsageError(
                f"round {i} began at a model of length {length:.3g}, beyond the {self._certificate.model_bound:.3g} for which "
                f"rounding was certified; begin it where start() says"
            )
        with np.errstate(all="ignore"):  # a user's model may have set numpy to raise
            hidden, public = self._certificate.kind.parts(self._certificate, i, start, stepper)
            return self._noised(i, hidden) + public

    def _noised(self, i: int, hidden: Floats) -> Floats:
        if self._certificate.sigma(i) == 0:  # a run for comparison: uncertified, its events cost everything
            return hidden
        words, scale = self._source.words(i, len(hidden)), self._certificate.noise_scale(i, self._me)
        return noised(hidden, scale, words, lambda number: self._source.more(i, number))


def _length(model: Floats) -> float:
    """Return the norm, bit for bit as numpy's function, which takes three times as long on a small model."""
    return math.sqrt(float(np.dot(model, model)))
