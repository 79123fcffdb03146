"""Any `torch.nn.Module` with a loss, as a model of the user's own: `OwnModel` makes a full objective of it."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from crescendo.core.arrays import Array, Floats, Ints, Vector
from crescendo.errors import ConfigError
from crescendo.objectives.neural.clipping import add_clipped
from crescendo.objectives.neural.flat_parameters import (
    check_buffers,
    layout_of,
    private_copy,
    random_layers,
    vector_of,
)
from crescendo.objectives.neural.per_record import PerRecord
from crescendo.objectives.neural.torch_stepper import TorchStepper

if TYPE_CHECKING:
    from crescendo.data.records import Records

Parameters = dict[str, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_NUMBERS_AT_ONCE = 1 << 22  # of the gradients of a chunk: 16 MB of float32
_MOST_AT_ONCE = 32  # records in a chunk: a chunk that is not full is computed as if it were
_SCORED_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Tensors:
    """Records as tensors of the module's floats, each in the shape that the module reads; sparse rows are filled in later."""

    x: Any
    y: torch.Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype

    def of(self, rows: Ints) -> tuple[torch.Tensor, torch.Tensor]:
        at: Any = slice(int(rows[0]), int(rows[0]) + 1) if len(rows) == 1 else rows  # one record: a view
        return self._dense(self.x[at]), self.y[at]

    def _dense(self, x: Any) -> torch.Tensor:
        dense: torch.Tensor = x if isinstance(x, torch.Tensor) else torch.from_numpy(x.toarray()).to(self.dtype)
        return dense.reshape(-1, *self.shape)


class TorchModel:
    """A module and its loss. The module given is never changed: `crescendo.torch.model` says what the arguments are."""

    def __init__(
        self, make: nn.Module | Callable[[], nn.Module], loss: Loss, shape: tuple[int, ...], batch: int, l2: float
    ) -> None:
        self._make = None if isinstance(make, nn.Module) else make
        self.net = private_copy(make) if isinstance(make, nn.Module) else _built(make, 0)
        self.name = type(self.net).__name__
        check_buffers(self.net)
        self.layout, self.draws = layout_of(self.net), random_layers(self.net)
        self.loss, self.shape, self.batch, self.l2 = loss, shape, batch, l2
        self.dtype = np.dtype(str(self.layout.dtype).removeprefix("torch."))
        self._known: weakref.WeakKeyDictionary[Records, Tensors] = weakref.WeakKeyDictionary()
        self._scored = private_copy(self.net).eval()
        self._lock = threading.Lock()
        self._at_once = max(1, min(_MOST_AT_ONCE, _NUMBERS_AT_ONCE // self.layout.size))
        self._per_record: PerRecord | None = None

    @property
    def clips(self) -> bool:
        """Whether many records' gradients can be had at once. If not, the code is shown one record at a time, by others."""
        return self._per_record is not None and self._per_record.vectorised

    @property
    def unfit(self) -> str | None:
        """Random layers draw by a record's place among the others: one record more would change what the others draw."""
        if not self.draws:
            return None
        return f"the layer {self.draws[0]} draws random numbers that one record more would change for the others; set p = 0"

    # -- what every model of a user's own has -------------------------------------------------------------------------

    def initial(self, rng: np.random.Generator) -> Floats:
        """The module's weights as they are; those of a new module if a class or a function was given, by the run's seed."""
        return vector_of(self.net if self._make is None else _built(self._make, int(rng.integers(2**62))))

    def gradient(
        self, w: Vector, data: Records, rows: Ints, clip: float | None = None, unit: float | None = None
    ) -> Floats:
        """The sum of the records' gradients; with ``clip`` each is clipped, and rounded to ``unit``, before it is added."""
        total, records = np.zeros(self.layout.size), self.tensors(data)
        parameters = self.layout.named(self.layout.tensor(w))
        limit, grain = np.inf if clip is None else clip, 0.0 if unit is None else unit
        with self.alone(), self._lock:
            per_record = self._settled(records)
            for first in range(0, len(rows), per_record.at_once):
                chunk = rows[first : first + per_record.at_once]
                if clip is None:
                    found = self._gradients(per_record, parameters, records, chunk)
                else:
                    found = self._whatever_happens(per_record, parameters, records, chunk)
                add_clipped(total, found, limit, grain)
        return total

    def evaluate(self, w: Vector, data: Records) -> dict[str, float]:
        """The mean loss with L2, and how many labels are right: the largest output, or the sign of a single one."""
        records, losses, hits = self.tensors(data), 0.0, 0
        with self.alone(), torch.no_grad(), self._lock:
            parameters = self.layout.named(self.layout.tensor(w))
            for first in range(0, len(data), _SCORED_AT_ONCE):
                rows = np.arange(first, min(first + _SCORED_AT_ONCE, len(data)))
                x, y = records.of(rows)
                outputs = functional_call(self._scored, parameters, (x,))
                losses += float(self.mean_loss(outputs, y)) * len(rows)
                hits += int((_decided(outputs) == y).sum())
        penalty = 0.5 * self.l2 * float(np.dot(w, w))
        return {"loss": losses / len(data) + penalty, "accuracy": hits / len(data)}

    def stepper(self, data: Records) -> TorchStepper:
        return TorchStepper(self, data)

    def module(self, w: Vector) -> nn.Module:
        """A copy of the module with these weights, ready to be asked."""
        made, values = private_copy(self.net).eval(), self.layout.named(self.layout.tensor(w))
        for name, parameter in made.named_parameters():
            if name in values:
                parameter.data = values[name].clone()
        return made

    # -- what its stepper needs ---------------------------------------------------------------------------------------

    def tensors(self, data: Records) -> Tensors:
        """The records as the module reads them; made once, for all clients that share them."""
        found = self._known.get(data)
        if found is None:
            x = torch.from_numpy(data.x).to(self.layout.dtype) if isinstance(data.x, np.ndarray) else data.x
            labels = torch.from_numpy(np.maximum(data.y, 0).astype(np.int64))  # -1 and +1 become 0 and 1
            found = Tensors(x, labels, self.shape or data.shape or (data.features,), self.layout.dtype)
            self._known[data] = found
        return found

    def mean_loss(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(outputs, y).mean()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread: how sums are split over threads would show in their last bits. The generator is left as it was."""
        threads, state = torch.get_num_threads(), torch.get_rng_state() if self.draws else None
        if threads != 1:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if threads != 1:
                torch.set_num_threads(threads)
            if state is not None:
                torch.set_rng_state(state)

    # -- each record by itself ----------------------------------------------------------------------------------------

    def _loss_of_one(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.mean_loss(functional_call(self.net, parameters, (x[None],)), y[None])

    def _settled(self, records: Tensors) -> PerRecord:
        if self._per_record is None:
            made = PerRecord(self._loss_of_one, self._at_once, bool(self.draws))
            made.choose(self.layout.named(self.layout.tensor(vector_of(self.net))), records.shape, self.layout.dtype)
            self._per_record = made
        return self._per_record

    def _gradients(self, per_record: PerRecord, parameters: Parameters, records: Tensors, rows: Ints) -> Array:
        """One row for each of ``rows``, computed in a full chunk that is padded with the first of them."""
        padded = rows
        if per_record.vectorised:
            padded = np.concatenate([rows, np.full(per_record.at_once - len(rows), rows[0])])
        x, y = records.of(padded)
        return np.asarray(per_record.rows(parameters, x.reshape(len(padded), *records.shape), y).numpy()[: len(rows)])

    def _whatever_happens(self, per_record: PerRecord, parameters: Parameters, records: Tensors, rows: Ints) -> Array:
        """The same for a private round: a record on which the code fails counts as 0, since stopping would tell of it."""
        try:
            return self._gradients(per_record, parameters, records, rows)
        except Exception:
            if len(rows) == 1:
                return np.zeros((1, self.layout.size))
        each = [self._whatever_happens(per_record, parameters, records, rows[k : k + 1]) for k in range(len(rows))]
        return np.concatenate(each)


def model(
    net: nn.Module | Callable[[], nn.Module],
    loss: Loss = nn.functional.cross_entropy,
    *,
    shape: tuple[int, ...] = (),
    batch: int = 1,
    l2: float = 0.0,
) -> TorchModel:
    """A torch module as an objective: ``crescendo.simulate(config, objective=crescendo.torch.model(net, loss), data=...)``.

    ``net`` is a module, which begins with its own weights, or a class or function that makes one, which is called anew under
    each run's seed. ``loss(outputs, labels)`` gives the mean over the records of a batch, or one number for each. Labels are
    whole numbers from 0 up. ``shape`` is that of one record as the module reads it, where the data do not say it. Local steps
    are of ``batch`` records, by their mean gradient. ``l2`` is a weight decay, outside of any clipping.
    """
    if batch < 1:
        raise ConfigError(f"batch must be 1 or more, got {batch}")
    if not isinstance(net, nn.Module) and not callable(net):
        raise ConfigError(
            f"a torch.nn.Module is needed, or a class or function that makes one, not {type(net).__name__}"
        )
    return TorchModel(net, loss, tuple(shape), batch, l2)


def from_file(named: Any, name: str, data: Records, options: dict[str, Any]) -> TorchModel:
    """The model of a run file's ``torch:file.py:Name``: a module, or what makes one, with an attribute ``loss`` if it has one.

    A class or function is called with what it asks for by name: ``features`` and the run file's options.
    """
    known = ("batch", "l2", "shape")
    ours = {key: value for key, value in options.items() if key in known}
    theirs = {key: value for key, value in options.items() if key not in known}
    loss = getattr(named, "loss", nn.functional.cross_entropy)
    if isinstance(named, nn.Module):
        return model(named, loss, **ours)
    offered = {"features": data.features, **theirs}
    asked = inspect.signature(named).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in asked.values())
    for option in theirs:
        if option not in asked and not anything:
            raise ConfigError(
                f"objective.options.{option} is given but {name} takes no {option}; leave it out or add it"
            )
    given = {key: value for key, value in offered.items() if anything or key in asked}
    return model(lambda: named(**given), loss, **ours)


def _built(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = make()
    if not isinstance(net, nn.Module):
        raise ConfigError(
            f"{getattr(make, '__name__', 'the function')} made a {type(net).__name__}, not a torch.nn.Module"
        )
    return net


def _decided(outputs: torch.Tensor) -> torch.Tensor:
    """The class that each record's outputs speak for."""
    if outputs.ndim > 1 and outputs.shape[1] > 1:
        return outputs.argmax(dim=1)
    return (outputs.reshape(len(outputs)) > 0).to(torch.int64)
