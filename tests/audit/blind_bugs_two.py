"""Ten more bugs of the private path, written from the paper and the mechanisms without sight of the audit.

Each is a change that reads like a speed-up or a repair, and each makes the claimed epsilon false, for some data or
terms at least. None repeats an idea of `blind_bugs`. Nothing here is used outside of tests.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from crescendo.core.random import Purpose, stream
from crescendo.data.records import Records
from crescendo.objectives.base import LoopStepper, Objective, Slots, Stepper
from crescendo.privacy.mechanisms.admission import LABELS, admitted
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import SeededSource
from tests.audit.blind_bugs import Blind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


# -- which records are drawn -------------------------------------------------------------------------------------------


class SystematicDraw(SeededSource):
    """One uniform number places a comb of teeth 1 / rate apart over the records: every draw has the same size.

    Each record has the public rate. But the others that are drawn say where the comb lies, and so whether the last one is.
    """

    def members(self, i: int, records: int, rate: float) -> Ints:
        offset = float(self._sampling(i).random())
        teeth = np.floor(offset + rate * np.arange(records + 1))
        return np.flatnonzero(np.diff(teeth)).astype(np.int64)


class PhaseDraw(SeededSource):
    """Each record has a phase of its own, so that all are seen equally often: once in 1 / rate rounds.

    A round by itself is a Poisson sample. Rounds together are not: a record seen in one comes back when it is due.
    """

    def members(self, i: int, records: int, rate: float) -> Ints:
        phases = stream(self._seed, Purpose.SAMPLE, self._client, 1 << 40).random(records)
        return np.flatnonzero((phases + i * rate) % 1.0 < rate).astype(np.int64)


def without_outliers(
    records: Records, norm_bound: float | None, intercept: bool, labels: tuple[float, ...] = LABELS
) -> tuple[Records, Bools]:
    """A record four times as long as the median of the sound ones is a slip of the unit, and is left out.

    The median moves with every record, and with it whether others are left out.
    """
    bounded, sound = admitted(records, norm_bound, intercept, labels)
    if not sound.any():
        return bounded, sound
    with np.errstate(all="ignore"):
        lengths = np.sqrt(records.squared_lengths(False))
        return bounded, sound & (lengths <= 4.0 * np.median(lengths[sound]))


# -- what is computed of them ------------------------------------------------------------------------------------------


class _StaleFactors(FrozenStepper):
    """Remembers by how much each record's gradient was scaled down when it was first drawn: gradients change slowly."""

    def __init__(self, objective: Objective, data: Records) -> None:
        super().__init__(objective, data)
        self._factors: dict[int, float] = {}

    def _gradient(self, slots: Slots, rows: Ints) -> Floats:
        if slots.clip is None or slots.unit is None or slots.layers is not None:
            return super()._gradient(slots, rows)
        total = np.zeros_like(self._start)
        for r in range(len(rows)):
            row = rows[r : r + 1]
            gradient = np.asarray(self._objective.gradient(self._start, self._data, row), dtype=np.float64)
            if not np.isfinite(gradient).all():
                continue
            if int(row[0]) not in self._factors:
                self._factors[int(row[0])] = min(1.0, slots.clip / max(float(np.linalg.norm(gradient)), 1e-300))
            total += np.rint(gradient * self._factors[int(row[0])] / slots.unit) * slots.unit
        return total


class StaleFactors(Private):
    """The length of a record's gradient is computed once a run and not once a round."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return _StaleFactors(objective, data)


class _SkipsOverflow(FrozenStepper):
    def _gradient(self, slots: Slots, rows: Ints) -> Floats:
        with np.errstate(all="ignore"):
            whole = np.asarray(self._objective.gradient(self._start, self._data, rows), dtype=np.float32)
        return super()._gradient(slots, rows) if np.isfinite(whole).all() else np.zeros_like(self._start)


class SkipsOverflow(Private):
    """A batch whose gradients overflow in float32 is skipped, as trainers in mixed precision do: one record takes all out."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return _SkipsOverflow(objective, data)


class _SlotAtOnce(LoopStepper):
    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        slots.check(h0, h1, len(self._w))
        block = slice(*(slots.block or (0, len(self._w))))
        for h in range(h0, h1):
            step, rows = float(slots.etas[h]) * slots.factor, slots.rows[slots.records(h)]
            self._w[block] *= 1.0 - step * self._l2
            total = np.zeros_like(self._w)
            for r in range(len(rows)):
                total += self._objective.gradient(self._w, self._data, rows[r : r + 1], slots.clip)  # type: ignore[call-arg]
            self._w[block] -= step * total[block]


class SlotAtOnce(Private):
    """The records of a slot are taken in one step, for speed: a step by the sum of two may bring models further apart."""

    def stepper(self, objective: Objective, data: Records) -> Stepper:
        return _SlotAtOnce(objective, data)


# -- what is sent ------------------------------------------------------------------------------------------------------


class HeavyBall(Private):
    """Momentum of the exact sums; each velocity has the full noise. A record is in all that follow, and not in one."""

    _velocity: Floats | None = None

    def _noised(self, i: int, hidden: Floats) -> Floats:
        if self._velocity is not None and len(self._velocity) == len(hidden):
            hidden = hidden + 0.9 * self._velocity
        self._velocity = hidden
        return super()._noised(i, hidden)


class TouchedOnly(Private):
    """Noise goes where a drawn record has a feature; what none of them moves is sent as 0, as sparse updates are."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        return np.where(hidden != 0.0, super()._noised(i, hidden), 0.0)


class TrueLength(Private):
    """Noise makes an update sqrt(d) times too long, so it is brought back to the length of what it hides."""

    def _noised(self, i: int, hidden: Floats) -> Floats:
        noisy = super()._noised(i, hidden)
        length, found = float(np.linalg.norm(hidden)), float(np.linalg.norm(noisy))
        return noisy * (length / found) if 0.0 < length < found else noisy


class CutNoise(SeededSource):
    """Noise beyond four deviations spoils a round for nothing, and is cut to four."""

    def words(self, i: int, size: int) -> Words:
        words = super().words(i, size)
        cells = np.maximum(words >> np.uint64(12), np.uint64(int(float(ndtr(-4.0)) * 2.0**53)))
        cut: Words = (cells << np.uint64(12)) | (words & np.uint64(0xFFF))
        return cut


BUGS: tuple[Blind, ...] = (
    Blind(
        "a comb of records",
        "one random offset places a comb over the records, so which others are drawn says whether the last one is",
        source=SystematicDraw,
    ),
    Blind(
        "records drawn when they are due",
        "each record has a phase of its own and is drawn once in 1 / rate rounds, so a record that was seen comes back when due",
        source=PhaseDraw,
    ),
    Blind(
        "outliers left out",
        "records four times as long as the median are left out, and the median moves with every record",
        admission=without_outliers,
    ),
    Blind(
        "factors of the first round",
        "each gradient is scaled by the factor that it was clipped by when its record was first drawn",
        mechanism=StaleFactors,
    ),
    Blind(
        "batches skipped for an overflow",
        "a batch whose gradients overflow in float32 is skipped, so one record takes all others out",
        mechanism=SkipsOverflow,
        bound=None,
    ),
    Blind(
        "a slot in one step",
        "the records of a slot are taken in one step, which may bring two models further apart",
        mechanism=SlotAtOnce,
        for_mechanism="local",
    ),
    Blind(
        "momentum before the noise",
        "nine tenths of the last exact velocity are added before the noise, so a record is in all rounds that follow",
        mechanism=HeavyBall,
    ),
    Blind(
        "noise where a record has a feature",
        "coordinates that no drawn record moves are sent as 0, without noise",
        mechanism=TouchedOnly,
    ),
    Blind(
        "the true length restored",
        "what is sent is shortened to the length of what the noise hides",
        mechanism=TrueLength,
    ),
    Blind("noise cut at four deviations", "noise beyond four deviations is cut to four", source=CutNoise),
)
