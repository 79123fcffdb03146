"""A user's own model: a class in a Python file, named in a run file as ``kind = "file.py:Name"``.

It needs three methods, each about flat vectors::

    class Name:
        def __init__(self, features): ...                 # or no argument at all
        def initial(self, rng): ...                       # the model to start from
        def gradient(self, w, data, rows): ...            # sum of the gradients of records data.x[rows], data.y[rows]
        def evaluate(self, w, data): ...                  # {"loss": mean loss, "accuracy": ...}

Labels ``data.y`` are class numbers: 0 for the first class of the data, 1 for the second, and so on.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import ConfigError, CrescendoError, Refused
from crescendo.objectives.base import Block, LoopStepper, Stepper, Traits, clipped
from crescendo.objectives.isolation.history import remembers
from crescendo.objectives.isolation.isolated_stepper import IsolatedStepper
from crescendo.objectives.isolation.pristine import Pristine
from crescendo.objectives.weighting import levels, weighted_sum
from crescendo_dp.own_code import defined_at, own_code_failed

if TYPE_CHECKING:
    from crescendo.data.records import Records
    from crescendo.objectives.layer_clips import LayerClips

_NEURAL = "crescendo.objectives.neural.neural_model"  # takes a second to load
_MEASURED_AT_ONCE = 512  # records per call for a summed gradient
_NUMBERS_AT_ONCE = 1 << 23  # of their gradients, 64 MB, if each is materialised


class OwnModel:
    """Makes a full `Objective` of an object with ``initial``, ``gradient`` and ``evaluate``, checking what they return.

    The object may also have ``l2``, ``dtype``, a fast path ``stepper(data)``, and ``smoothness(square)``: the maximal
    curvature of the loss of a record (x, 1) of that squared length, which ``steps = "auto"`` needs.
    """

    def __init__(self, model: Any, data: Records, signed: bool = False) -> None:
        """Try the model on ``data``, with one gradient and one evaluation of a few records, to find mistakes at set-up.

        With ``signed`` the model sees labels -1 and +1 in place of the class numbers 0 and 1, as in old terms.
        """
        if isinstance(model, type):
            raise ConfigError(
                f"{model.__name__} is a class, and a model is an object of it; pass objective={model.__name__}(..)"
            )
        self._signed: WeakKeyDictionary[Records, Records] | None = WeakKeyDictionary() if signed else None
        self._model, self.name = model, str(getattr(model, "name", type(model).__name__))
        self._pristine: Pristine | None = None
        if inspect.isfunction(model):
            raise ConfigError(
                f"{model.__name__} is a function, and a model is an object; if it makes a torch module, pass "
                f"objective=crescendo.torch.model({model.__name__})"
            )
        for method in ("initial", "gradient", "evaluate"):
            if not callable(getattr(model, method, None)):
                if isinstance(model, str):
                    raise ConfigError(
                        f"objective is a model itself; name one in the config: objective.kind = {model!r}"
                    )
                raise ConfigError(f"{self.name} has no method {method}; a model needs initial, gradient and evaluate")
        start = self.initial(np.random.Generator(np.random.Philox(0)))
        self.size = start.size
        self.dtype, self.l2 = np.dtype(getattr(model, "dtype", np.float64)), float(getattr(model, "l2", 0.0))
        rows = np.arange(min(2, len(data)))
        if not np.isfinite(self.gradient(start, data, rows)).all():
            raise ConfigError(f"{self.name}.gradient returned numbers that are not finite at the first model; check it")
        scores = self.evaluate(start, data.take(rows))
        if math.isnan(scores["loss"]):
            raise ConfigError(f"{self.name}.evaluate returned a loss that is not a number at the first model; check it")

    @property
    def traits(self) -> Traits:
        return Traits(
            name=self.name,
            l2=self.l2,
            smoothness=self._smoothness if callable(getattr(self._model, "smoothness", None)) else None,
            clips=self._clips,
            layered=True,
            batch=self._model.batch if self._clips else 1,
            threads=bool(getattr(self._model, "threads", False)) and (self._pristine is None or self._neural),
            plain_steps=bool(getattr(self._model, "plain_steps", True)),
            slow=getattr(self._model, "slow", None),
            unfit=getattr(self._model, "unfit", None),
            running_layer=getattr(self._model, "running_layer", None),
        )

    def _smoothness(self, square: float) -> float:
        """Return the model's L for a record (x, 1) of this squared length, for ``steps = "auto"``."""
        found = self._call("smoothness", square)
        if isinstance(found, bool) or not isinstance(found, int | float | np.floating) or not 0 <= found < np.inf:
            raise ConfigError(f"{self.name}.smoothness({square:g}) is {found!r:.60}; it must be a number of at least 0")
        return float(found)

    @property
    def _neural(self) -> bool:
        ours = sys.modules.get(_NEURAL)  # if it is not loaded, the model is not neural
        return ours is not None and isinstance(self._model, ours.NeuralModel)

    @property
    def _clips(self) -> bool:
        """True for one of our neural models, which clip themselves; any other code sees one record at a time."""
        return self._neural and bool(self._model.clips)

    # -- isolation: under privacy, no call may reveal an earlier call's records ----------------------------------------

    def isolate(self) -> None:
        """From now on, begin and end each call of the user's code in its present state.

        Refuse a state that cannot be restored. The mechanisms call this before they pass on a record.
        """
        if self._pristine is not None:
            return
        if not self._neural:
            self._pristine = Pristine(self._model, name=self.name)
            return
        self._model.refuse_callbacks()
        self._pristine = Pristine(*self._model.own_code, name=self.name, apart=self._model.copied)
        self._model.between = self._pristine.restore

    @contextmanager
    def exposed(self) -> Iterator[Pristine]:
        """Lift the isolation within the block, so that memory shows; restore the state afterwards."""
        self.isolate()
        pristine, self._pristine = self._pristine, None
        assert pristine is not None
        if self._neural:
            self._model.between = None
        try:
            yield pristine
        finally:
            self._pristine = pristine
            pristine.restore()
            if self._neural:
                self._model.between = pristine.restore

    def check_forgetful(self, start: Floats, records: Records, kind: str, by_record: bool) -> None:
        """Isolate the code, and refuse code with memory, which would not learn as its author meant.

        A certificate requires that a record's gradient depends only on the model and that record; without
        ``by_record``, that a round of steps depends only on the model and the round's records. Isolation ensures this
        (see `pristine`).
        """
        if self.traits.running_layer is not None:
            raise Refused(
                f"{self.traits.running_layer} of {kind} keeps running statistics of the records, so no privacy can be "
                "certified for it; use GroupNorm in its place"
            )
        found = remembers(self, start, records, by_record)
        if found is not None:
            raise Refused(
                f"{kind} {found}, so no privacy can be certified for it; its {'gradient' if by_record else 'steps'} must keep "
                "nothing between calls and draw no random numbers"
            )

    def _shown(self, data: Any) -> Any:
        """Return the records as the model sees them."""
        if self._signed is None or not hasattr(data, "y"):
            return data
        if data not in self._signed:
            self._signed[data] = replace(data, y=2.0 * data.y - 1.0)
        return self._signed[data]

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            shown = arguments if self._signed is None else map(self._shown, arguments)
            with np.errstate(), self._pristine or nullcontext():  # keep the caller's numpy settings, at set-up too
                return getattr(self._model, method)(*shown)
        except CrescendoError:
            raise
        except (Exception, SystemExit) as error:
            raise own_code_failed(
                f"{self.name}.{method} failed with", error, defined_at(self._model, method)
            ) from error

    def _numbers(self, method: str, found: Any, due: str) -> Floats:
        """Return a method's result as an array of numbers."""
        try:
            if found is None:
                raise TypeError
            return np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError):
            what = "nothing; does it end with return?" if found is None else f"a {type(found).__name__};"
            raise ConfigError(f"{self.name}.{method} returned {what} {due} is due") from None

    def initial(self, rng: np.random.Generator) -> Vector:
        model = self._numbers(
            "initial", self._call("initial", rng), "a flat vector of numbers, the model to start from,"
        )
        if model.ndim != 1 or not model.size:
            raise ConfigError(f"{self.name}.initial returned shape {model.shape}; a model is a flat vector of numbers")
        if not np.isfinite(model).all():
            raise ConfigError(f"{self.name}.initial returned numbers that are not finite; start from finite ones")
        return model

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Block | None = None,
        unit: float | None = None,
        layers: LayerClips | None = None,
    ) -> Floats:
        if clip is not None and self._clips:
            limits = (clip, unit) if layers is None else (clip, unit, layers)
            summed: Floats = self._call("gradient", w, data, rows, *limits)
            return summed[slice(*(block or (0, self.size)))]
        if clip is not None:
            alone = (self.gradient(w, data, rows[i : i + 1]) for i in range(len(rows)))
            each = (clipped(one, clip) if layers is None else layers.clipped(one) for one in alone)
            total: Floats = np.asarray(sum(each, np.zeros(self.size)), dtype=np.float64)
            return total[slice(*(block or (0, self.size)))]
        found = self._call("gradient", self._lent(w), data, rows)
        gradient = self._numbers("gradient", found, f"the sum of the rows' gradients, {self.size} numbers,")
        if gradient.shape != (self.size,):
            raise ConfigError(
                f"{self.name}.gradient returned shape {gradient.shape} where {(self.size,)} was due; "
                "return the sum over the rows, one number per coordinate of the model"
            )
        return gradient[slice(*(block or (0, self.size)))]

    def evaluate(
        self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None, metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the model's own means; with row weights, combine the means over records of equal weight."""
        if np.ndim(w) == 2:
            each = [self.evaluate(model, data, weighted) for model in w]
            return {name: np.array([scores[name] for scores in each]) for name in each[0]}
        groups = list(levels(weighted, len(data)))
        if len(groups) == 1:
            return self._means(w, data)
        total: dict[str, float] = {}
        for weight, rows in groups:
            for name, mean in self._means(w, data.take(rows)).items():
                total[name] = total.get(name, 0.0) + mean * weight * len(rows)
        return total

    def _lent(self, w: Vector) -> Vector:
        """Return a read-only view of the model for the user's code."""
        if self._neural:
            return w
        lent = np.asarray(w).view()
        lent.flags.writeable = False
        return lent

    def decide(self, w: Vector, data: Records) -> Ints:
        """Return the index of each record's predicted class, if the model has ``decide(w, data)``."""
        if not callable(getattr(self._model, "decide", None)):
            raise ConfigError(
                f"{self.name} has no method decide(w, data), which gives the place of each record's class"
            )
        return np.asarray(self._call("decide", w, data), dtype=np.int64)

    def mean_gradient(self, w: Vector, data: Records, weighted: npt.ArrayLike | None = None) -> Floats:
        """Return the gradient of F, L2 included, by the model's faster ``measured_gradient`` if it has one.

        Other models may materialise each record's gradient, so the number of records per call is limited.
        """
        own = callable(getattr(self._model, "measured_gradient", None))
        trained = getattr(self._model, "trained_numbers", self.size)
        at_once = _MEASURED_AT_ONCE if own else max(1, min(_MEASURED_AT_ONCE, _NUMBERS_AT_ONCE // self.size))

        def summed(rows: Ints) -> Vector:
            found: Vector = self._call("measured_gradient", w, data, rows) if own else self.gradient(w, data, rows)
            return found

        return weighted_sum(summed, len(data), weighted, at_once) + self.l2 * np.where(
            np.arange(self.size) < trained, w, 0.0
        )

    def _means(self, w: Vector, data: Records) -> dict[str, float]:
        means = self._call("evaluate", self._lent(w), data)
        try:
            found = {str(name): float(value) for name, value in means.items()}
        except (AttributeError, TypeError, ValueError):
            found = {}
        if "loss" not in found:
            raise ConfigError(f'{self.name}.evaluate must return a dictionary of numbers with "loss", got {means!r}')
        if found.get("accuracy", 0.0) > 1 or found.get("accuracy", 0.0) < 0:
            raise ConfigError(
                f"{self.name}.evaluate returned accuracy = {found['accuracy']:g}; it is a share from 0 to 1, not a percentage "
                "or a count"
            )
        return found

    @property
    def module(self) -> Callable[[Vector], Any] | None:
        """A function from a vector to a torch module; None for other models."""
        made: Callable[[Vector], Any] | None = getattr(self._model, "module", None)
        return made

    @property
    def pytree(self) -> Callable[[Vector], Any] | None:
        """A function from a vector to a JAX model's parameters; None for other models."""
        made: Callable[[Vector], Any] | None = getattr(self._model, "pytree", None)
        return made

    def stepper(self, data: Records) -> Stepper:
        own = callable(getattr(self._model, "stepper", None))
        stepper: Stepper = self._call("stepper", data) if own else LoopStepper(self, data)
        return stepper if self._pristine is None or not own else IsolatedStepper(stepper, self._pristine)
