"""Protocols of objectives: flat float vectors in and out; no randomness, privacy or I/O.

An `Objective` computes losses and gradients. A `Stepper` holds one client's local model and runs slots on it; an
objective may bring its own compiled stepper, and `LoopStepper`, which calls ``gradient`` record by record, serves all
others. Both follow the same rules:

- ``Slots.ends`` None: slot h is record h, and the textbook step ``w <- w - eta f (g(w) + l2 w)`` with the mask's
factor f.
- ``ends`` given: slot h has the records up to ``ends[h]``, any number of them. The model shrinks by ``1 - eta f l2``
once per
 slot, then takes one step ``w <- w - eta f g(w)`` per record, in order.
- With ``clip`` every record's gradient (never the L2 part) is scaled down to that norm, over all coordinates
regardless of the
 mask; a non-finite gradient counts as 0. Without ``clip`` non-finite numbers pass through.
- With ``block`` (lo, hi) only the coordinates lo..hi-1 move, L2 shrink included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Array, Floats, Ints, Vector
from crescendo.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.objectives.layer_clips import LayerClips

Block: TypeAlias = tuple[int, int]
StepperState: TypeAlias = Mapping[str, Array]  # a stepper's state in a round, as arrays by name


@dataclass(frozen=True, eq=False)
class Slots:
    """The layout of one client's round: the records in order, the step size of each slot, and the coordinates that
    move.

    >>> slots = Slots(rows=np.array([4, 4, 7]), etas=np.array([0.1, 0.1]), ends=np.array([2, 3]))
    >>> len(slots), slots.rows[slots.records(1)]
    (2, array([7]))
    """

    rows: Ints  # row numbers into the data, in processing order
    etas: Floats  # one step size per slot
    ends: Ints | None = None  # the end of each public slot in rows; None: one record per slot
    block: Block | None = None  # Paper [app-rec]: the coordinates lo..hi-1 that move; None: all
    factor: float = 1.0  # Paper [app-rec]: the number of blocks, the scale of a masked gradient
    clip: float | None = None
    unit: float | None = None  # a power of two; clipped gradients are rounded to its multiples, so their sum is exact
    layers: LayerClips | None = None  # a clip per layer; ``clip`` then bounds the whole gradient

    def __post_init__(self) -> None:
        slots = self.rows if self.ends is None else self.ends
        if len(slots) != len(self.etas):
            raise UsageError(f"a round of {len(slots)} slots needs as many step sizes, got {len(self.etas)}")
        if self.ends is not None and len(self.ends):
            falls = self.ends[0] < 0 or (self.ends[1:] < self.ends[:-1]).any()
            if falls or self.ends[-1] != len(self.rows):
                raise UsageError(f"ends must rise from 0 to the {len(self.rows)} records of the round, got {self.ends}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise UsageError(f"clip must be positive and finite, got {self.clip}")
        if self.block is not None and not 0 <= self.block[0] < self.block[1]:
            raise UsageError(f"block must be (lo, hi) with 0 <= lo < hi, got {self.block}")

    def __len__(self) -> int:
        return len(self.etas)

    def records(self, h: int) -> slice:
        """Return the slice of ``rows`` with the records of slot ``h``."""
        if self.ends is None:
            return slice(h, h + 1)
        return slice(int(self.ends[h - 1]) if h else 0, int(self.ends[h]))

    def check(self, h0: int, h1: int, size: int) -> None:
        """Refuse slots outside the round, and a block that exceeds the model."""
        if not 0 <= h0 <= h1 <= len(self):
            raise UsageError(f"slots {h0}..{h1} are not all in a round of {len(self)} slots")
        if self.block is not None and self.block[1] > size:
            raise UsageError(f"block {self.block} reaches beyond a model of {size} coordinates")


@dataclass(frozen=True)
class Traits:
    """Known properties of an objective, on which certificates and schedules rest; unknown properties keep their defaults."""

    name: str = "this model"
    l2: float = 0.0  # steppers apply it as a shrink per slot: ``gradient`` excludes it and ``evaluate`` includes it
    convexity: float = 0.0  # mu: F minus mu/2 |w|^2 is convex
    smoothness: Callable[[float], float] | None = None  # L of every record's loss, given a bound on |(x, 1)|^2
    margin: Callable[[float, float], float] | None = None  # for a convex loss of w . (x, 1): L by norm bound and clip
    no_margin: str = "does not say that it is one"  # the reason for no such L
    intercept: bool = False  # the model has one more coordinate than a record: a record is (x, 1)
    features: int | None = None  # of a record
    numbers: bool = False  # a regression: labels are numbers, not classes
    label_range: tuple[float, float] | None = None  # the stated range to which labels are clipped
    scores: tuple[str, ...] = ("accuracy",)  # metrics of ``evaluate`` on a test part besides the loss
    clips: bool = False  # it is a `ClippingObjective`
    batch: int = 1  # slots per local step, taken at the last of them
    threads: bool = False  # clients may compute in parallel threads: they share no mutable state
    plain_steps: bool = True  # plain SGD steps, without momentum or other state
    first_length: float | None = None  # norm of the first model, if only that is known
    running_layer: str | None = None  # the layer whose running statistics are the model's last coordinates
    layered: bool = False  # its gradients can be clipped by layer
    slow: str | None = None  # the reason for slow clipping of each record, if any
    unfit: str | None = None  # the reason why no mechanism that clips records can be certified, with a remedy


class Objective(Protocol):
    """A model and its loss. A subclass has no traits by default, and steps by a loop over its gradient.

    A user's own class needs only ``initial``, ``gradient`` and ``evaluate``; `OwnModel` makes an objective of it.
    """

    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def traits(self) -> Traits:
        return Traits()

    def initial(self, rng: np.random.Generator) -> Vector:
        """Return the start model."""

    def gradient(self, w: Vector, data: Records, rows: Ints) -> Vector:
        """Return the sum of the gradients of ``rows``, in float64."""

    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return means over the records: "loss" (with L2), and "accuracy" for classes; arrays for a stack of models."""

    def stepper(self, data: Records) -> Stepper:
        """Return a stepper that moves a local model on these records."""
        return LoopStepper(self, data)


class ClippingObjective(Objective, Protocol):
    """An objective that clips each record's gradient, and rounds it to multiples of a unit."""

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
    ) -> Floats: ...


class LayeredObjective(Objective, Protocol):
    """An objective that can clip each layer of a gradient separately."""

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
        layers: LayerClips | None = None,
    ) -> Floats: ...


class Stepper(Protocol):
    """One client's local model and the loop that moves it. A pause between slots changes no result.

    A stepper that can resume in another process has two more methods: see `ResumableStepper`.
    """

    def load(self, w: Vector) -> None: ...
    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        """Run slots h0..h1-1."""

    def translate(self, by: Vector) -> None:
        """Add ``by`` to the local model."""

    def read(self) -> Floats:
        """Return a copy of the local model."""


class ResumableStepper(Stepper, Protocol):
    """A stepper whose round can be gone on with by another one like it, bit for bit."""

    def export(self) -> StepperState | None:
        """What the slots so far have made of it; None if it cannot say. The arrays may be its own: read them at once."""

    def restore(self, state: StepperState, slots: Slots) -> None:
        """Go on from an exported state of a round that is laid out as ``slots``. The round's start was loaded before."""


def isolate(objective: Objective) -> None:
    """Let no call of an objective show what an earlier one has seen, before a private mechanism shows it a record.

    Objectives of ours keep nothing; `OwnModel` isolates the code of a user's own.
    """
    own = getattr(objective, "isolate", None)
    if callable(own):
        own()


def exported(stepper: Stepper) -> StepperState | None:
    """Return a stepper's state if its own class defines `export`: an inherited one would omit a subclass's state.

    >>> class Any(Objective): pass
    >>> class Heavy(LoopStepper):
    ...     velocity = 0.0
    >>> light, heavy = (kind(Any(), np.zeros(1)) for kind in (LoopStepper, Heavy))
    >>> exported(light), exported(heavy)
    ({'w': array([], dtype=float64)}, None)
    """
    own = vars(type(stepper)).get("export")
    return None if own is None else own(stepper)


def resumed(stepper: Stepper, state: StepperState, slots: Slots) -> None:
    """Resume a stepper, with the round's start loaded, from an exported state; raise UsageError if it does not match."""
    own = vars(type(stepper)).get("restore")
    if own is None:
        raise UsageError(f"{type(stepper).__name__} cannot resume a round that another stepper began")
    own(stepper, state, slots)


def stored(state: StepperState, name: str, like: Array) -> Array:
    """Return a copy of one array of a state, which must have the shape and type of ``like``.

    >>> stored({"w": np.ones(2)}, "w", np.zeros(2)).tolist()
    [1.0, 1.0]
    """
    found = state.get(name)
    if found is None or found.shape != like.shape or found.dtype != like.dtype:
        raise UsageError(f"a stored round has no {name} of {like.dtype} and shape {like.shape}")
    return found.copy()


def clipped(gradient: Vector, limit: float) -> Vector:
    """Paper [alg:DP]: scale down to norm ``limit``; leave shorter gradients unchanged. Non-finite gradients count as 0.

    >>> clipped(np.array([3.0, 4.0]), 1.0), clipped(np.array([np.inf, 1.0]), 1.0), clipped(np.array([1e200, 0.0]), 1.0)
    (array([0.6, 0.8]), array([0., 0.]), array([1., 0.]))
    """
    largest = float(np.max(np.abs(gradient), initial=0.0))
    if not math.isfinite(largest):
        return np.zeros_like(gradient)
    if largest == 0.0:
        return gradient
    norm = float(np.linalg.norm(gradient / largest))  # of order 1, so there is no overflow
    return gradient if norm * largest <= limit else gradient / largest * (limit / norm)


class LoopStepper:
    """Runs slots by calling ``objective.gradient(w, data, rows)`` once per record; clips and masks the results.

    >>> class Mean(Objective):                          # the loss |w - y|^2 / 2
    ...     def gradient(self, w, data, rows):
    ...         return w - data[rows]
    >>> stepper = LoopStepper(Mean(), np.array([1.0, 3.0]))
    >>> stepper.load(np.zeros(1)); stepper.advance(Slots(np.array([0, 1]), np.array([1.0, 0.5])), 0, 2); stepper.read()
    array([2.])
    """

    def __init__(self, objective: Objective, data: Records) -> None:
        self._objective, self._data, self._l2 = objective, data, objective.traits.l2
        self._w: Floats = np.zeros(0)

    def load(self, w: Vector) -> None:
        self._w = np.array(w, dtype=np.float64)

    def translate(self, by: Vector) -> None:
        self._w = self._w + by

    def read(self) -> Floats:
        return self._w.copy()

    def export(self) -> StepperState:
        return {"w": self._w}

    def restore(self, state: StepperState, slots: Slots) -> None:
        self._w = stored(state, "w", self._w)

    def advance(self, slots: Slots, h0: int, h1: int) -> None:
        slots.check(h0, h1, len(self._w))
        block = slice(*(slots.block or (0, len(self._w))))
        for h in range(h0, h1):
            step, rows = float(slots.etas[h]) * slots.factor, slots.rows[slots.records(h)]
            if slots.ends is None:
                downhill = self._gradient(rows, slots.clip)[block] + self._l2 * self._w[block]
                self._w[block] -= step * downhill
                continue
            self._w[block] *= 1.0 - step * self._l2
            for i in range(len(rows)):
                self._w[block] -= step * self._gradient(rows[i : i + 1], slots.clip)[block]

    def _gradient(self, rows: Ints, clip: float | None) -> Vector:
        gradient = np.asarray(self._objective.gradient(self._w, self._data, rows), dtype=np.float64)
        if gradient.shape != self._w.shape:
            raise ConfigError(
                f"{type(self._objective).__name__}.gradient returned shape {gradient.shape} for a model of shape "
                f"{self._w.shape}; return one number per coordinate"
            )
        return gradient if clip is None else clipped(gradient, clip)
