"""Torch models: any `torch.nn.Module` with a loss, made into a full objective by `OwnModel`."""

from __future__ import annotations

import copy
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import ConfigError, CrescendoError
from crescendo.objectives.neural.clipping import Parts
from crescendo.objectives.neural.flat_parameters import (
    Layout,
    device_named,
    in_float64,
    private_copy,
    random_layers,
    running_layer,
    vector_of,
)
from crescendo.objectives.neural.neural_model import NeuralModel, Options, optimiser_of, split_options
from crescendo.objectives.neural.outputs import check_outputs, decided
from crescendo.objectives.neural.per_record import PerRecord
from crescendo.objectives.neural.torch_stepper import TorchStepper
from crescendo_dp.own_code import own_code_failed

if TYPE_CHECKING:
    from crescendo.data.records import Records

Parameters = dict[str, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_SCORED_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class _Tensors:
    """Records as tensors in the module's floats and shape; sparse rows are expanded on demand."""

    x: Any
    y: torch.Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    classes: int  # as needed for these labels

    def of(self, rows: Ints) -> tuple[torch.Tensor, torch.Tensor]:
        """Return copies: a module may write into its inputs."""
        at: Any = slice(int(rows[0]), int(rows[0]) + 1) if len(rows) == 1 else rows  # faster for one record
        x, y = self._dense(self.x[at]), self.y[at]
        return (x.clone(), y.clone()) if len(rows) == 1 else (x, y)

    def _dense(self, x: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            x = torch.from_numpy(x.toarray()).to(self.dtype).to(self.device)
        dense: torch.Tensor = x
        return dense.reshape(len(dense), *self.shape)


class TorchModel(NeuralModel):
    """A module and its loss. The given module is never changed. `crescendo.torch.model` documents the arguments."""

    def __init__(
        self, make: nn.Module | Callable[[], nn.Module], loss: Loss, options: Options, device: str | None = None
    ) -> None:
        super().__init__(options)
        self._lock = threading.Lock()  # of the copies below, and of torch's generator
        self._make = None if isinstance(make, nn.Module) else make
        self.net = (private_copy(make) if isinstance(make, nn.Module) else _built(make, 0)).train()
        if device is not None:
            self.net.to(device_named(device))
        self.name = type(self.net).__name__
        self.layout, self.draws, self.running_layer = (
            Layout.of(self.net),
            random_layers(self.net),
            running_layer(self.net),
        )
        self.trained_numbers = self.layout.trained
        self.device, self.size = self.layout.device, self.layout.size
        self.loss = private_copy(loss).to(self.device) if isinstance(loss, nn.Module) else loss
        self.dtype = np.dtype(str(self.layout.dtype).removeprefix("torch."))
        self._known: weakref.WeakKeyDictionary[Records, _Tensors] = weakref.WeakKeyDictionary()
        self._scored = private_copy(self.net).eval()
        self._per_record: PerRecord | None = None
        self._moving = {id(parameter): parameter for parameter in self.net.parameters() if parameter.requires_grad}
        self._fresh: nn.Module = self.net  # a copy for one call of the code
        self._fresh_loss = self.loss
        self._tried = False

    @property
    def part_sizes(self) -> tuple[int, ...]:
        return self.layout.sizes

    @property
    def own_code(self) -> tuple[Any, ...]:
        return (self.net, self._scored, self.loss)

    @property
    def copied(self) -> list[Any]:
        """Return parameters and buffers: the module that runs is a copy, and scoring does not change them."""
        made = [self.net, self._scored, *([self.loss] if isinstance(self.loss, nn.Module) else [])]
        return [one for net in made for one in (*net.parameters(), *net.buffers())]

    @property
    def clips(self) -> bool:
        return self._per_record is not None and self._per_record.vectorised

    @property
    def unfit(self) -> str | None:
        """Random layers draw by a record's position: one more record would change the draws of the others."""
        if self.running_layer:
            return f"{self.running_layer} keeps running statistics, which mix records; use GroupNorm in its place"
        if self.device.type != "cpu":
            says = f"whether a record's gradient is the same beside any others is tried on the CPU alone, not on {self.device}"
            return f"{says}; leave device out, or choose batch-clip"
        if not self.draws:
            return None
        says = f"{self.draws[0]} draws random numbers that one record more would change for the others"
        return (
            f"{says}; remove it for a private run, or choose the mechanism batch-clip, with which networks learn less"
        )

    # -- methods of every own model -----------------------------------------------------------------------------------

    def initial(self, rng: np.random.Generator) -> Floats:
        """Return the module's weights, or a new module's by the run's seed if a class or function was given."""
        return vector_of(self.net if self._make is None else _built(self._make, int(rng.integers(2**62))))

    def gradient(
        self, w: Vector, data: Records, rows: Ints, clip: float | None = None, unit: float | None = None, *layers: Any
    ) -> Floats:
        if self.running_layer:
            return self._of_batch(w, self.tensors(data), rows)
        with self._lock:
            return super().gradient(w, data, rows, clip, unit, *layers)

    def gradients_at(self, w: Vector, data: Records) -> Callable[[Ints], Parts]:
        records, parameters = self.tensors(data), self.layout.named(self.layout.tensor(w))
        return partial(self._gradients, self._settled(records), parameters, records)

    def evaluate(self, w: Vector, data: Records) -> dict[str, float]:
        """Return the mean loss with L2, and the accuracy by the largest output, or by the sign of a single one."""
        records, losses, hits = self.tensors(data), 0.0, 0
        with self.alone(), torch.no_grad(), self._lock:
            parameters = self.layout.named(self.layout.tensor(w))
            for first in range(0, len(data), _SCORED_AT_ONCE):
                rows = np.arange(first, min(first + _SCORED_AT_ONCE, len(data)))
                x, y = records.of(rows)
                outputs = functional_call(self._scored, parameters, (x,))
                losses += float(self.mean_loss(outputs, y)) * len(rows)
                hits += int((decided(outputs) == y).sum())
        penalty = self.penalty(w[: self.trained_numbers])
        return {"loss": losses / len(data) + penalty, "accuracy": hits / len(data)}

    def decide(self, w: Vector, data: Records) -> Ints:
        """Return the index of each record's predicted class."""
        records, found = self.tensors(data), np.zeros(len(data), dtype=np.int64)
        with self.alone(), torch.no_grad(), self._lock:
            parameters = self.layout.named(self.layout.tensor(w))
            for first in range(0, len(data), _SCORED_AT_ONCE):
                rows = np.arange(first, min(first + _SCORED_AT_ONCE, len(data)))
                outputs = functional_call(self._scored, parameters, (records.of(rows)[0],))
                found[rows] = decided(outputs).cpu().numpy()
        return found

    def measured_gradient(self, w: Vector, data: Records, rows: Ints) -> Floats:
        """Return the sum of the gradients of `evaluate`'s loss, in one pass with the layers in evaluation mode.

        Only for measurement: state is not reset between records, and non-finite numbers stay.
        """
        with self.alone(), self._lock:
            flat = self.layout.tensor(w).requires_grad_()
            x, y = self.tensors(data).of(rows)
            loss = self.mean_loss(functional_call(self._scored, self.layout.named(flat), (x,)), y)
            (found,) = torch.autograd.grad(loss, flat)
        return in_float64(found) * len(rows)

    def stepper(self, data: Records) -> TorchStepper:
        return TorchStepper(self, data)

    def module(self, w: Vector) -> nn.Module:
        """Return a copy of the module with these weights, in evaluation mode."""
        made, values = private_copy(self.net).eval(), self.layout.named(self.layout.tensor(w))
        for name, value in (*made.named_parameters(), *made.named_buffers()):
            if name in values:
                value.data = values[name].clone()
        return made

    # -- for its stepper ----------------------------------------------------------------------------------------------

    def tensors(self, data: Records) -> _Tensors:
        """Return the records as the module reads them; made once for all clients that share them."""
        found = self._known.get(data)
        if found is None:
            dtype, device = self.layout.dtype, self.device
            x = torch.from_numpy(data.x).to(dtype).to(device) if isinstance(data.x, np.ndarray) else data.x
            labels = self.labels_of(data)
            classes = int(labels.max(initial=-1)) + 1
            found = _Tensors(x, torch.from_numpy(labels).to(device), self.shape_of(data), dtype, device, classes)
            self._known[data] = found
        return found

    def mean_loss(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.mean(self.loss(outputs, y))

    @staticmethod
    def mean(loss: Any) -> torch.Tensor:
        if not isinstance(loss, torch.Tensor):
            raise ConfigError(
                f"the loss returned a {type(loss).__name__}; a tensor is needed, the mean or one number a record"
            )
        return loss.mean()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Compute in one thread, since splitting sums over threads changes their last bits, and restore the generator.

        The caller's float and gradient settings do not matter either.
        """
        threads, states = torch.get_num_threads(), self._generators()
        if threads != 1:
            torch.set_num_threads(1)
        try:
            with torch.inference_mode(False), torch.enable_grad(), torch.autocast(self.device.type, enabled=False):
                yield
        finally:
            if threads != 1:
                torch.set_num_threads(threads)
            torch.set_rng_state(states[0])
            for state in states[1:]:
                torch.get_device_module(self.device).set_rng_state(state)

    def _generators(self) -> list[torch.Tensor]:
        """Return the states of the CPU's generator and of the device's own."""
        own = [] if self.device.type == "cpu" else [torch.get_device_module(self.device).get_rng_state()]
        return [torch.get_rng_state(), *own]

    def _of_batch(self, w: Vector, records: _Tensors, rows: Ints) -> Floats:
        """Return the summed gradient if layers mix the records of a batch: their mean gradient times their number."""
        with self.alone(), self._lock:
            if not self._tried:
                self._try(records, 2)
                self._tried = True
            self._renew()
            flat = self.layout.tensor(w).requires_grad_()
            x, y = records.of(rows)
            loss = self.mean(self._fresh_loss(functional_call(self._fresh, self.layout.named(flat), (x,)), y))
            (found,) = torch.autograd.grad(loss, flat)
        return in_float64(found) * len(rows)

    # -- one record at a time -----------------------------------------------------------------------------------------

    def _loss_of_one(self, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.mean(self._fresh_loss(functional_call(self._fresh, parameters, (x[None],)), y[None]))

    def _renew(self) -> None:
        """Reset the module and the generator, so that the code keeps nothing from one record to the next."""
        if self.between is not None:
            self.between()
        self._fresh = copy.deepcopy(self.net, dict(self._moving))
        self._fresh_loss = copy.deepcopy(self.loss) if isinstance(self.loss, nn.Module) else self.loss
        torch.default_generator.manual_seed(0)
        if self.device.type != "cpu":
            torch.manual_seed(0)  # of all devices

    def _try(self, records: _Tensors, copies: int) -> None:
        """Check once, on one record, the outputs, random draws, and a loss that is a mean and depends on the weights."""
        x, y = records.of(np.zeros(copies, dtype=np.int64))
        self._renew()
        before = self._generators()
        outputs = self._first_outputs(x.clone())
        check_outputs(outputs, self.loss, records.classes, self.name)
        loss = self.mean(self._fresh_loss(outputs, y))
        if not loss.requires_grad:
            raise ConfigError("the loss does not depend on the weights; return it as a tensor that is not detached")
        if not self.draws and not all(map(torch.equal, before, self._generators())):
            self.draws = (f"the code of {self.name}",)
        try:
            with torch.no_grad():
                once, twice = (self._loss_of_copies(x, y, count) for count in (1, 2))
        except Exception:  # left for the first real call to report
            return
        if math.isclose(twice, 2 * once, rel_tol=1e-4) and not math.isclose(twice, once, rel_tol=1e-4):
            raise ConfigError('the loss of two records is the sum of theirs; return the mean: reduction = "mean"')

    def _first_outputs(self, x: torch.Tensor) -> Any:
        try:
            return self._fresh(x)
        except CrescendoError:
            raise
        except Exception as error:
            raise own_code_failed(
                f"{self.name} has to read records of shape {tuple(x.shape[1:])}, as the data have them, and failed on one with",
                error,
            ) from error

    def _loss_of_copies(self, x: torch.Tensor, y: torch.Tensor, count: int) -> float:
        outputs = private_copy(self.net).eval()(x.repeat(count, *[1] * (x.ndim - 1)))
        return float(self.mean_loss(outputs, y.repeat(count)))

    def _settled(self, records: _Tensors) -> PerRecord:
        if self._per_record is None:
            self._try(records, 1)
            made = PerRecord(self._loss_of_one, self.at_once, bool(self.draws), self._renew)
            made.choose(self.layout.named(self.layout.tensor(vector_of(self.net))), records.shape, self.dtype)
            self._per_record = made
        return self._per_record

    def _gradients(self, per_record: PerRecord, parameters: Parameters, records: _Tensors, rows: Ints) -> Parts:
        """Return one row for each of ``rows``, computed in a full chunk padded with the first one."""
        padded = rows
        if per_record.vectorised:
            padded = np.concatenate([rows, np.full(per_record.at_once - len(rows), rows[0])])
        x, y = records.of(padded)
        found = per_record.rows(parameters, x.reshape(len(padded), *records.shape), y)
        return [part[: len(rows)] for part in found]


def model(
    net: nn.Module | Callable[[], nn.Module] | None = None,
    loss: Loss = nn.functional.cross_entropy,
    *,
    shape: tuple[int, ...] = (),
    batch: int = 1,
    l2: float = 0.0,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    device: str | None = None,
    optimizer: Any = None,
    **others: Any,
) -> TorchModel:
    """A torch module as an objective: ``crescendo.simulate(config, objective=crescendo.torch.model(net, loss),
    data=...)``.

    ``net`` is a module, which starts with its own weights, or a class or function that makes one, called again with
    each run's seed. ``loss(outputs, labels)`` gives the mean over the records of a batch, or one number per record.
    Labels are whole numbers from 0 up. ``shape`` is the shape of one record for the module, if the data do not have
    it. Local steps use the mean gradient of ``batch`` records. ``l2`` is a weight decay, outside of any clipping.
    ``optimiser``, or ``optimizer``, is "sgd", with optional ``momentum``, or "adam"; its state lasts one round, and
    its step sizes are the schedule's. ``device`` is the module's device, such as "cuda"; by default its present one.
    """
    if isinstance(loss, type) or not callable(loss):
        raise ConfigError(
            f"a loss is a function of outputs and labels, or an object such as nn.CrossEntropyLoss(), not {loss!r}"
        )
    if not isinstance(net, nn.Module) and not callable(net):
        raise ConfigError(
            f"a torch.nn.Module is needed, or a class or function that makes one, not {type(net).__name__}"
        )
    if device is not None and not isinstance(device, str | torch.device):
        raise ConfigError(f'device must be the name of a torch device, such as "cuda", got {device!r}')
    chosen = optimiser_of("torch", optimiser, optimizer, others)
    return TorchModel(net, loss, Options(shape, batch, l2, chosen, momentum), device)


def from_file(named: Any, name: str, data: Records, options: dict[str, Any]) -> TorchModel:
    """Return the model of a run file's ``torch:file.py:Name``: a module, or a maker of one, with an optional ``loss``.

    A class or function is called with the arguments it names: ``features`` and the run file's options.
    """
    loss = getattr(named, "loss", nn.functional.cross_entropy)
    device = options.get("device")
    options = {key: value for key, value in options.items() if key != "device"}
    if isinstance(named, nn.Module):
        ours = split_options(lambda **theirs: named, name, data.features, options)[1]
        return model(named, loss, **ours, device=device)
    make, ours = split_options(named, name, data.features, options)
    return model(make, loss, **ours, device=device)


def _built(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            net = make()
        except CrescendoError:
            raise
        except Exception as error:
            raise own_code_failed(f"{_name_of(make)} could not be made:", error) from error
    if not isinstance(net, nn.Module):
        raise ConfigError(
            f"{_name_of(make)} made a {type(net).__name__}, not a torch.nn.Module; a torch model is one, and any other class "
            'is named without torch: as kind = "file.py:Name"'
        )
    return net


def _name_of(make: Any) -> str:
    name = getattr(make, "__name__", "<lambda>")
    return "what was named" if name == "<lambda>" else str(name)
