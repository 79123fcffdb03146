"""The `batch-clip` mechanism: any model and any local steps; a round's whole displacement is clipped before it is hidden.

Why it is sound. The hidden vector is no longer than S = ``clip``, whatever the round computed, so two such vectors, with and
without a record, are at most 2S apart. The proof asks one thing of the model, the loss and the optimiser: a round may depend on
its start model and its drawn records, but not on state left by earlier draws, or subsampling would not amplify privacy. So every
round gets a new stepper, with new optimiser state, that sees the drawn records alone.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.core.terms import Terms
from crescendo.errors import UsageError
from crescendo.objectives.base import (
    Objective,
    Slots,
    Stepper,
    StepperState,
    clipped,
    exported,
    isolate,
    resumed,
    stored,
)
from crescendo.privacy.mechanisms.certificate import Certificate, Requirement
from crescendo.privacy.mechanisms.extremes import Rounds
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo.privacy.mechanisms.reach import Lengths
from crescendo.privacy.mechanisms.rounding import U

if TYPE_CHECKING:
    from crescendo.data.records import Records


class BatchClip(Proposal):
    """Hides the clipped displacement of a round. ``clip`` is S, the length of a whole update, not of a record's gradient."""

    name = "batch-clip"
    clips_records = False

    def requirements(self) -> list[Requirement]:
        return []

    def bound(self, least: float, most: float) -> float:
        return most

    def slack(self, bound: float) -> float:
        """Return (d + 24) u: a clipped vector exceeds S by at most (d + 8) u of it, and the noise scale is off by 16 u."""
        return (self.objective.size + 24) * U

    def remedy(self, bound: float, least: float, first: float) -> str:
        return "a smaller model would pass"

    def largest_hidden(self, bound: float) -> float:
        return 0.51

    def lengths(self, part: Rounds) -> Lengths:
        """Count one step of length S per client, whatever its slots, and no pull of L2: clipping may cut it away."""
        active = np.count_nonzero(part.shares, axis=1)
        longest = np.full(len(active), self.clip * self.terms.combined)
        return Lengths(longest, active, 2 * longest, active, np.ones(len(active)))

    @classmethod
    def sensitivity(cls, terms: Terms, i: int, c: int, clip: float) -> float:
        return 2 * clip

    @classmethod
    def longest_move(cls, certificate: Certificate, i: int, c: int, drawn: float) -> float:
        return certificate.clip * (1 + certificate.slack)

    @classmethod
    def parts(cls, certificate: Certificate, i: int, start: Floats, stepper: Stepper) -> tuple[Floats, Floats | float]:
        moved, nothing = super().parts(certificate, i, start, stepper)
        return np.asarray(clipped(moved, certificate.clip), dtype=np.float64), nothing

    @classmethod
    def stepper(cls, objective: Objective, data: Records) -> Stepper:
        return _OneRound(objective, data)


class _OneRound:
    """Runs each round on a new stepper that sees only the drawn records; a round whose code fails moves nothing.

    A record may have caused the failure, so it must not show: 0 is hidden like any other displacement.
    """

    def __init__(self, objective: Objective, data: Records) -> None:
        isolate(objective)
        self._objective, self._data = objective, data
        self._start: Floats = np.zeros(0)
        self._stepper: Stepper | None = None
        self._slots: Slots | None = None
        self._failed = False

    def load(self, w: Array) -> None:
        self._start = np.array(w, dtype=np.float64)
        self._stepper, self._slots, self._failed = None, None, False

    def translate(self, by: Array) -> None:
        raise UsageError("a private round uses one start model; take broadcasts in between rounds")

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        slots.check(h0, h1, len(self._start))
        if self._failed:
            return
        try:
            with np.errstate():
                self._advance(slots, h0, h1)
        except BaseException as error:  # a user's code may even call sys.exit
            self._fails(error)

    def read(self) -> Floats:
        if self._stepper is None or self._failed:
            return self._start.copy()
        try:
            with np.errstate():
                found = np.array(self._stepper.read(), dtype=np.float64)
        except BaseException as error:
            self._fails(error)
            return self._start.copy()
        return found if found.shape == self._start.shape else self._start.copy()

    def export(self) -> StepperState | None:
        """Export the round's stepper, if there is one and the round has not failed."""
        flags = {"failed": np.array(self._failed), "began": np.array(self._stepper is not None)}
        if self._failed or self._stepper is None:
            return flags
        state = exported(self._stepper)
        return None if state is None else flags | {f"own.{name}": array for name, array in state.items()}

    def restore(self, state: StepperState, slots: Slots) -> None:
        failed, began = (bool(stored(state, name, np.array(False))) for name in ("failed", "began"))
        if failed or not began:
            self._failed = failed
            return
        try:
            with np.errstate():
                stepper, alone = self._begun(slots)
        except BaseException as error:  # a record may have caused it, as in `advance`
            self._fails(error)
            return
        own = {name.removeprefix("own."): array for name, array in state.items() if name.startswith("own.")}
        resumed(stepper, own, alone)
        self._stepper, self._slots = stepper, alone

    def _advance(self, slots: Slots, h0: int, h1: int) -> None:
        if self._stepper is None or self._slots is None:
            self._stepper, self._slots = self._begun(slots)
        self._stepper.advance(self._slots, h0, h1)

    def _begun(self, slots: Slots) -> tuple[Stepper, Slots]:
        """Return a stepper with the drawn records alone, at the round's start, and the slots with its row numbers."""
        stepper = self._objective.stepper(self._data.take(slots.rows))
        stepper.load(self._start.copy())
        return stepper, dataclasses.replace(slots, rows=np.arange(len(slots.rows)))

    def _fails(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error  # a person pressed Ctrl-C; on other threads only the code itself can have raised it
        self._failed = True
