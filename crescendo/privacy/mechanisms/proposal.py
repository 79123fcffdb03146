"""A private mechanism on one set of terms before it is certified: its requirements, each refused with a value that would pass.

Each kind of mechanism is a subclass of `Proposal` in a separate file, with a line in `mechanism_kinds`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.errors import Refused, UsageError
from crescendo.objectives.base import Objective, Stepper
from crescendo.objectives.layer_clips import LayerClips
from crescendo.privacy.mechanisms.admission import check_norm_bound
from crescendo.privacy.mechanisms.certificate import Certificate, Requirement, printed
from crescendo.privacy.mechanisms.extremes import Extremes, Rounds
from crescendo.privacy.mechanisms.gaussian import GRID_BITS, MOST_MULTIPLES, STOPPED
from crescendo.privacy.mechanisms.mechanism import Mechanism, Private
from crescendo.privacy.mechanisms.noise import Source
from crescendo.privacy.mechanisms.reach import LOG_CHANCE, Lengths, pulls, reach
from crescendo.privacy.mechanisms.rounding import LEAST, LOG_RARE, MOST, MOST_SLACK, UNDECLARED, most_drawn
from crescendo_dp.directed_rounding import length_up
from crescendo_dp.events import Event, PoissonGaussian
from crescendo_dp.planning.calibration import MOST_SIGMA
from crescendo_dp.planning.sigmas import Sigmas

if TYPE_CHECKING:
    from crescendo.data.records import Records

_MOST_RECORDS = 10**12
_LONGEST = 1e150  # a model's length, whose square is still a float


@dataclass(frozen=True)
class Proposal(ABC):
    """A mechanism to be certified. Each kind defines its requirements, its rounding slack, the cost of its releases and how a
    client runs it; ``needs`` lists the keys of a run file's [privacy] that it requires.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("delta", "clip", "records")
    event: ClassVar[type[Event]] = PoissonGaussian
    clips_records: ClassVar[bool] = True  # clips each record's gradient, which must depend on that record alone
    takes_layers: ClassVar[bool] = False  # a gradient may be clipped layer by layer

    terms: Terms
    objective: Objective
    clip: float
    sigma: Sigmas
    records: tuple[int, ...]
    norm_bound: float | None
    layers: LayerClips | None = None  # of total length ``clip``

    # -- defined by each kind ------------------------------------------------------------------------------------------

    @abstractmethod
    def requirements(self) -> list[Requirement]:
        """Return the kind's requirements, given rates and step sizes that are in their ranges."""

    @abstractmethod
    def bound(self, least: float, most: float) -> float:
        """Return the longest start model, given that the run's noise alone reaches ``least`` and the run ``most``."""

    @abstractmethod
    def slack(self, bound: float) -> float:
        """Return the share by which rounding can enlarge one record's influence, for start models up to ``bound``."""

    @abstractmethod
    def remedy(self, bound: float, least: float, first: float) -> str:
        """Suggest a change that brings the slack within its limit; ``first`` is the length of the first model."""

    @property
    def unit(self) -> float | None:
        """The unit to whose multiples clipped gradients are rounded before they are added; None if they are not added."""
        return None

    def model_part(self, bound: float) -> float:
        """Return the start model's part in the largest number to be hidden, in units of eta D C."""
        return 0.0

    def largest_hidden(self, bound: float) -> float:
        """Return the largest number to be hidden, m gradients and the model part, in units of the sensitivity."""
        return 1.01 * float(self.drawn.max()) + self.model_part(bound)

    def lengths(self, part: Rounds) -> Lengths:
        """Return the parts of these rounds' updates: a clipped step for every slot, noise, and the pull of L2."""
        h = part.steps.max(axis=1) * self.terms.blocks * self.clip * self.terms.combined
        kept = 1.0 - pulls(self.terms, part, self.objective.traits.l2)
        return Lengths(h, part.shares.sum(axis=1), h, np.count_nonzero(part.shares, axis=1), kept)

    @classmethod
    def sensitivity(cls, terms: Terms, i: int, c: int, clip: float) -> float:
        """Return the most that one record can move client c's hidden part of round i, in exact arithmetic."""
        return terms.largest_step(i, c) * terms.blocks * clip

    @classmethod
    def longest_move(cls, certificate: Certificate, i: int, c: int, drawn: float) -> float:
        """Return the longest displacement, without noise, of a round that draws ``drawn`` records; see `norm_limits`."""
        terms = certificate.terms
        step = terms.largest_step(i, c) * terms.blocks
        shrink = 1 - (1 - step * certificate.objective.traits.l2) ** terms.share(i, c)
        return float(step * certificate.clip * drawn + shrink * certificate.model_bound)

    @classmethod
    def parts(cls, certificate: Certificate, i: int, start: Floats, stepper: Stepper) -> tuple[Floats, Floats | float]:
        """Split round i, begun at ``start``, into the part that gets noise and the public rest: here all and nothing."""
        block = slice(*certificate.terms.block(i, len(start)))
        return start[block] - stepper.read()[block], 0.0

    @classmethod
    def stepper(cls, objective: Objective, data: Records) -> Stepper:
        """Return the stepper that computes a round."""
        return objective.stepper(data)

    @classmethod
    def client(cls, certificate: Certificate, me: int, rows: Ints, source: Source) -> Mechanism:
        """Return the mechanism on one client's records."""
        return Private(certificate, me, rows, source)

    @classmethod
    def longest_noise(cls, scale: float, numbers: int) -> float:
        """Return a length that noise on ``numbers`` coordinates exceeds with a chance of at most exp(-31)."""
        return scale * (math.sqrt(numbers) + math.sqrt(2 * LOG_CHANCE))

    # -- certifying ----------------------------------------------------------------------------------------------------

    def certified(self) -> Certificate:
        """Return the certificate, or raise Refused."""
        self._check_numbers()
        self._check_labels()
        self._check_layers()
        found = [self._rates(), self._step_sizes()]
        self._require(found)  # the next conditions compute with these values
        found += self.requirements()
        if self.clips_records and self.objective.traits.unfit is not None:  # first, since no setting mends it
            raise Refused(f"the {self.name} mechanism cannot be certified: {self.objective.traits.unfit}")
        self._require(found)
        first = self._first_length()
        reached = reach(self.terms, self.objective.size, self.lengths, self.sigma, first)
        least, most = map(length_up, reached)
        if not most <= _LONGEST:
            raise Refused(f"the run's models would reach a length of {most:.3g}; smaller steps would pass")
        bound = self.bound(least, most)
        slack = self.slack(bound)
        says = f"rounding enlarges what a record changes by at most {slack:.2g} of it, and {MOST_SLACK:g} is allowed; "
        says += self.remedy(bound, least, first)
        found += [Requirement("rounding", slack, MOST_SLACK, slack <= MOST_SLACK, says), self.multiples(bound)]
        self._require(found)
        return Certificate(
            kind=type(self),
            terms=self.terms,
            objective=self.objective,
            clip=self.clip,
            sigma=self.sigma,
            records=self.records,
            norm_bound=self.norm_bound,
            conditions=tuple(found),
            slack=slack,
            model_bound=bound,
            unit=self.unit,
            failure=self._failure(),
            layers=self.layers,
        )

    @cached_property
    def extremes(self) -> Extremes:
        return Extremes.of(self.terms, self.records)

    @property
    def drawn(self) -> Floats:
        """The most records that each client draws in a round."""
        return most_drawn(self.extremes.slots, self.records)

    def _failure(self) -> float:
        """Return the chance that `rounding` fails in a run: a draw beyond its bound, or noise cut off after 512 bits."""
        certain = bool((self.drawn >= UNDECLARED * np.asarray(self.records, dtype=np.float64)).all())
        rare = 0.0 if certain else math.exp(-LOG_RARE)
        return 1.001 * self.terms.rounds * (rare + self.objective.size * STOPPED)

    @property
    def largest_step(self) -> float:
        """The largest eta D."""
        return self.extremes.step * self.terms.blocks

    def _require(self, found: list[Requirement]) -> None:
        for condition in found:
            if not condition.holds:
                raise Refused(f"the {self.name} mechanism cannot be certified: {condition.says}")

    def _check_numbers(self) -> None:
        terms, size, sigma, records = self.terms, self.objective.size, self.sigma, self.records
        if not terms.whole_rounds:
            raise UsageError("a private round uses one start model; make the terms with whole_rounds=True")
        clips = (self.clip, *(self.layers.clips if self.layers is not None else ()))
        for clip in clips:
            if not LEAST <= clip <= MOST:
                raise UsageError(f"privacy.clip must lie between {LEAST:g} and {MOST:g}, got {clip:g}")
        check_norm_bound(self.norm_bound, self.objective.traits.intercept)
        if not all(0 < value < math.inf for value in sigma.values()):
            raise UsageError(f"privacy.sigma must be above 0, or no epsilon holds; got {sigma.least}")
        if not sigma.most <= MOST_SIGMA:
            raise UsageError(
                f"privacy.sigma must be at most 1e6, got {sigma.most:g}; so much noise leaves nothing to learn from"
            )
        if sigma.rounds is not None and sigma.rounds != terms.rounds:
            raise UsageError(
                f"privacy.sigma lists the noise of {sigma.rounds} rounds and the run has {terms.rounds}; give one for each"
            )
        if len(records) != terms.clients or min(records) < 1:
            raise UsageError(
                f"{terms.clients} clients have to declare how many records they have, each at least 1; got {records}"
            )
        if terms.blocks > size:
            raise UsageError(f"schedule.blocks must be at most the model's {size} numbers, not {terms.blocks}")
        if max(records) > _MOST_RECORDS:
            raise UsageError(f"a client declares {max(records)} records, and at most {_MOST_RECORDS} can be certified")

    def _check_labels(self) -> None:
        """Refuse labels without a range: at a label of 1e300 a short record's square underflows, and its gradient is not clipped.

        With labels up to 1e60 a record whose square underflows has a gradient far below every clip.
        """
        traits = self.objective.traits
        if traits.numbers and traits.label_range is None:
            raise Refused(
                f"{traits.name} has no label_range, and privacy is certified for labels of a stated range; give it one, such as "
                "label_range = [0, 1]"
            )

    def _check_layers(self) -> None:
        """Refuse clips by layer if the kind has no proof for them or they do not fit this model."""
        layers, goal = self.layers, self.objective
        if layers is None:
            return
        if not self.takes_layers or not goal.traits.layered:
            what = goal.traits.name if self.takes_layers else self.name
            raise Refused(f"privacy.clip has a list of layers, and {what} takes one clip; give one number")
        if layers.numbers != goal.size:
            raise Refused(f"the layers of privacy.clip have {layers.numbers} numbers, and the model has {goal.size}")

    def _first_length(self) -> float:
        """Return the length of the first model, from the description if the model is only described."""
        length = self.objective.traits.first_length
        if length is None:
            length = float(np.linalg.norm(self.objective.initial(stream(self.terms.seed, Purpose.INIT))))
        if not 0 <= length <= MOST:
            raise Refused(f"the first model has length {length:g}; one between 0 and {MOST:g} would pass")
        return length

    # -- conditions that several kinds share ---------------------------------------------------------------------------

    def _rates(self) -> Requirement:
        """Require that every rate is a probability."""
        rate, i, c = self.extremes.rate, self.extremes.round, self.extremes.client
        says = (
            f"round {i} has {self.terms.share(i, c)} slots for the {self.records[c]} records of client {c}, "
            f"a rate of {rate:.4g}; a rate is at most 1: at most {self.records[c]} slots would pass"
        )
        return Requirement("sampling rate", rate, 1.0, rate <= 1.0, says)

    def _step_sizes(self) -> Requirement:
        """Require steps that noise can be scaled by: not 0, and far from the edges of the float range."""
        found, blocks = self.extremes, self.terms.blocks
        least, most = float(np.min(found.least)) * blocks, self.largest_step
        moves = least != math.inf
        holds = moves and least >= LEAST and most <= MOST and found.lowest >= 0
        says = (
            f"its step sizes reach from {min(least, found.lowest):.4g} to {most:.4g} (times the {blocks} blocks), and noise is "
            f"scaled by them: "
            f"steps from {LEAST:g} to {MOST:g} would pass"
            if moves
            else "no client has a share in any round; larger rounds would pass"
        )
        return Requirement("step sizes", least, LEAST, holds, says)

    def shrink(self, limit: float = math.inf) -> Requirement:
        """Require that L2 shrinks the model: a factor outside 0..1 would enlarge it and its rounding until noise is lost in it.

        ``limit`` is another bound on a step times its blocks; the suggested step respects it, too.
        """
        l2, blocks = self.objective.traits.l2, self.terms.blocks
        decay = self.largest_step * l2
        times = f" times {blocks} blocks" if blocks > 1 else ""
        return Requirement(
            "shrink",
            decay,
            1.0,
            0 <= decay <= 1.0,
            f"the largest step size{times} times l2 is {decay:.6g} and must be at most 1; "
            + (
                f"eta = {printed(min(limit, 1 / l2) / blocks)} would pass"
                if 1 / MOST < l2 < MOST
                else "an l2 between 0 and 1 over that step would pass"
            ),
        )

    def multiples(self, bound: float) -> Requirement:
        """Require that the largest number to be hidden has few enough multiples of the finest grid at this sigma."""
        steps = self.largest_hidden(bound) * 2.0 ** (GRID_BITS + 1)  # for a sigma of 1
        multiples, enough = steps / self.sigma.least, steps / MOST_MULTIPLES
        says = (
            f"the numbers to be hidden can have {multiples:.3g} steps of the grid that noise is rounded to, and "
            f"{MOST_MULTIPLES:.3g} are allowed; sigma = {printed(enough, 3, up=True)} would pass"
        )
        return Requirement("grid", multiples, MOST_MULTIPLES, multiples <= MOST_MULTIPLES, says)
