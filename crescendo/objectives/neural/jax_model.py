"""JAX models: a pure loss with its parameters, made into a full objective by `OwnModel`."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from crescendo.core.arrays import Array, Floats, Ints, Vector
from crescendo.errors import ConfigError, CrescendoError, Refused
from crescendo.objectives.neural.clipping import Parts
from crescendo.objectives.neural.jax_programs import Programs
from crescendo.objectives.neural.jax_stepper import JaxStepper
from crescendo.objectives.neural.neural_model import NeuralModel, Options, one_by_one, optimiser_of, split_options
from crescendo.objectives.neural.probes import independent
from crescendo.objectives.neural.pytrees import Leaves
from crescendo_dp.own_code import own_code_failed

if TYPE_CHECKING:
    from crescendo.data.records import Records


@dataclass(frozen=True, eq=False)
class _Rows:
    """Records in the model's floats and the loss's shape; sparse rows are expanded on demand."""

    x: Any
    y: Array
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def of(self, rows: Ints) -> tuple[Array, Array]:
        x = self.x[rows]
        dense = np.asarray(x if isinstance(x, np.ndarray) else x.toarray(), dtype=self.dtype)
        return dense.reshape(len(rows), *self.shape), self.y[rows]

    def padded(self, rows: Ints, count: int) -> tuple[Array, Array]:
        """Return ``count`` records: those of ``rows``, then zeros."""
        x, y = np.zeros((count, *self.shape), self.dtype), np.zeros(count, np.int32)
        x[: len(rows)], y[: len(rows)] = self.of(rows)
        return x, y


class JaxModel(NeuralModel):
    """A loss and its parameters; `crescendo.jax.model` documents the arguments."""

    unfit = None
    threads = True  # compiled programs of pure functions, each on the thread that calls it

    def __init__(
        self,
        loss: Callable[..., Any],
        params: Any,
        predict: Callable[..., Any] | None,
        options: Options,
        name: str,
    ) -> None:
        super().__init__(options)
        self.name, self._loss, self._predict = name, loss, predict
        self._make = params if _makes(params) else None
        given = params if self._make is None else self._made(0)
        self.leaves = Leaves.of(given)
        self.size, self.dtype = self.leaves.size, self.leaves.dtype
        self._first = self.leaves.vector(jax.tree.leaves(given))
        self._rows: weakref.WeakKeyDictionary[Records, _Rows] = weakref.WeakKeyDictionary()
        self._programs: dict[tuple[int, ...], Programs] = {}
        self._in_chunks: dict[tuple[int, ...], bool] = {}
        self._pure = False  # True if callbacks are refused

    @property
    def part_sizes(self) -> tuple[int, ...]:
        return self.leaves.sizes

    @property
    def clips(self) -> bool:
        return bool(self._in_chunks) and all(self._in_chunks.values())

    # -- methods of every own model -----------------------------------------------------------------------------------

    def initial(self, rng: np.random.Generator) -> Floats:
        """Return the parameters, or those that a given function makes from a new key by the run's seed."""
        if self._make is None:
            return self._first.copy()
        made = self._made(int(rng.integers(2**31)))
        if Leaves.of(made) != self.leaves:
            raise ConfigError("params makes another pytree for another key; its arrays must have the same shapes")
        return self.leaves.vector(jax.tree.leaves(made))

    def gradients_at(self, w: Vector, data: Records) -> Callable[[Ints], Parts]:
        records, programs, leaves = self.records(data), self.programs(data), self.leaves.leaves(w)

        def chunk(x: Array, y: Array) -> Array:
            return np.concatenate(programs.gradients(leaves, x, y.astype(np.int32), len(x)), axis=1)

        def gradients(rows: Ints) -> Parts:
            return programs.gradients(leaves, *records.padded(rows, self.at_once), len(rows))

        if records.shape not in self._in_chunks:
            self._in_chunks[records.shape] = independent(chunk, self.at_once, records.shape, self.dtype)
        if self._in_chunks[records.shape]:
            return gradients
        return partial(one_by_one, gradients)

    def evaluate(self, w: Vector, data: Records) -> dict[str, float]:
        """Return the mean loss with L2, and the accuracy if the model has a prediction."""
        records, programs, leaves = self.records(data), self.programs(data), self.leaves.leaves(w)
        total, hits, decided = 0.0, 0, None
        with self.alone():
            for first in range(0, len(data), programs.records):
                rows = np.arange(first, min(first + programs.records, len(data)))
                losses, decided = programs.scores(leaves, *records.padded(rows, programs.records))
                total += float(losses[: len(rows)].astype(np.float64).sum())
                hits += 0 if decided is None else int((decided[: len(rows)] == records.y[rows]).sum())
        found = {"loss": total / len(data) + self.penalty(w)}
        return found if self._predict is None else found | {"accuracy": hits / len(data)}

    def decide(self, w: Vector, data: Records) -> Ints:
        """Return the index of each record's predicted class."""
        if self._predict is None:
            raise ConfigError(f"{self.name} was given no predict(params, x), so it predicts nothing")
        records, programs, leaves = self.records(data), self.programs(data), self.leaves.leaves(w)
        found = np.zeros(len(data), dtype=np.int64)
        with self.alone():
            for first in range(0, len(data), programs.records):
                rows = np.arange(first, min(first + programs.records, len(data)))
                decided = programs.scores(leaves, *records.padded(rows, programs.records))[1]
                assert decided is not None
                found[rows] = decided[: len(rows)]
        return found

    def measured_gradient(self, w: Vector, data: Records, rows: Ints) -> Floats:
        """Return the sum of the records' gradients, for measurement only: non-finite numbers stay."""
        records, programs, leaves = self.records(data), self.programs(data), self.leaves.leaves(w)
        total, most = np.zeros(self.size), programs.records
        with self.alone():
            for first in range(0, len(rows), most):
                part = rows[first : first + most]
                x, y = records.of(np.concatenate([part, np.full(most - len(part), part[0])]))
                weight = (np.arange(most) < len(part)).astype(self.dtype)
                total += self.leaves.vector(programs.summed(leaves, x, y, weight))
        return total

    def stepper(self, data: Records) -> JaxStepper:
        return JaxStepper(self, data)

    def pytree(self, w: Vector) -> Any:
        """Return the parameters with these numbers, as JAX arrays in a pytree like the given one."""
        with self.alone():
            return self.leaves.tree([jax.numpy.asarray(leaf) for leaf in self.leaves.leaves(w)])

    # -- for its stepper ----------------------------------------------------------------------------------------------

    def records(self, data: Records) -> _Rows:
        """Return the records as the loss reads them; made once for all clients that share them."""
        found = self._rows.get(data)
        if found is None:
            x = np.asarray(data.x, dtype=self.dtype) if isinstance(data.x, np.ndarray) else data.x
            found = _Rows(x, self.labels_of(data).astype(np.int32), self.shape_of(data), self.dtype)
            self._rows[data] = found
        return found

    def programs(self, data: Records) -> Programs:
        shape = self.shape_of(data)
        if shape not in self._programs:
            with self.alone():
                programs = self._traced(shape)
            if self._pure:
                self._refuse(programs)
            self._programs[shape] = programs
        return self._programs[shape]

    def refuse_callbacks(self) -> None:
        """Refuse host callbacks from now on, for all record shapes: traced code has no state, but a callback may."""
        self._pure = True
        for programs in self._programs.values():
            self._refuse(programs)

    def _refuse(self, programs: Programs) -> None:
        if programs.leaves_by is not None:
            raise Refused(
                f"{self.name} has a {programs.leaves_by} in it, which may keep records on the host, so no privacy can "
                "be certified for it; remove that from the code, or compute it in JAX"
            )

    def _traced(self, shape: tuple[int, ...]) -> Programs:
        try:
            return Programs(self._loss, self._predict, self.leaves, shape)
        except CrescendoError:
            raise
        except (Exception, SystemExit) as error:
            raise own_code_failed(f"JAX cannot trace {self.name} on a record of shape {shape}:", error) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Compute on the CPU, in the parameters' own floats, regardless of the caller's settings. Programs have one thread."""
        with ExitStack() as settings:
            for one in (
                jax.enable_x64(self.dtype == np.float64),
                jax.default_device(jax.local_devices(backend="cpu")[0]),
                jax.default_matmul_precision("default"),
                jax.numpy_dtype_promotion("standard"),
                jax.numpy_rank_promotion("allow"),
                jax.disable_jit(False),
                jax.debug_nans(False),
                jax.debug_infs(False),
                jax.transfer_guard("allow"),
            ):
                settings.enter_context(one)
            yield

    def _made(self, seed: int) -> Any:
        assert self._make is not None
        try:
            return self._make(jax.random.key(seed))
        except CrescendoError:
            raise
        except Exception as error:
            raise own_code_failed("params could not be made:", error) from error


def _makes(params: Any) -> bool:
    """Return True for a function that makes parameters; a pytree may be callable too."""
    return callable(params) and jax.tree_util.all_leaves([params])


def model(
    loss: Callable[..., Any] | None = None,
    params: Any = None,
    *,
    predict: Callable[..., Any] | None = None,
    shape: tuple[int, ...] = (),
    batch: int = 1,
    l2: float = 0.0,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    name: str = "",
    optimizer: Any = None,
    **others: Any,
) -> JaxModel:
    """A JAX loss as an objective: ``crescendo.simulate(config, objective=crescendo.jax.model(loss, params),
    data=...)``.

    ``loss(params, x, y)`` is a pure function that JAX can trace: the mean over a batch, or one number per record. It
    is traced once, for one record: ``x`` has a first dimension of 1. ``params`` is any pytree of float arrays, or a
    function that makes one from a JAX random key, called again with each run's seed. ``predict(params, x)`` gives a
    row of outputs or a label per record, for the accuracy. Labels are whole numbers from 0 up. The other options are
    those of `crescendo.torch.model`: ``shape``, ``batch``, ``l2``, ``optimiser`` and ``momentum``.
    """
    if loss is None or params is None:
        lacking = "a loss and params" if loss is None else "params, the numbers to start from"
        raise ConfigError(f"a JAX model lacks {lacking}; write crescendo.jax.model(loss, params)")
    if not callable(loss):
        raise ConfigError(f"a loss is a function of params, records and labels, not {loss!r:.60}")
    if predict is not None and not callable(predict):
        raise ConfigError(f"predict is a function of params and records, not {predict!r}")
    options = Options(shape, batch, l2, optimiser_of("jax", optimiser, optimizer, others), momentum)
    return JaxModel(loss, params, predict, options, name or getattr(loss, "__name__", type(loss).__name__))


def from_file(named: Any, name: str, data: Records, options: dict[str, Any]) -> JaxModel:
    """Return the model of a run file's ``jax:file.py:Name``: an object with ``params``, ``loss`` and optionally
    ``predict``.

    A class or function is called with the arguments it names: ``features`` and the run file's options.
    """
    makes = inspect.isclass(named) or inspect.isroutine(named)
    make, ours = split_options(named if makes else lambda **theirs: named, name, data.features, options)
    made = make()
    for needed in ("params", "loss"):
        if not hasattr(made, needed):
            raise ConfigError(f"{name} has no {needed}; a JAX model needs params and loss(params, x, y)")
    return model(made.loss, made.params, predict=getattr(made, "predict", None), name=name, **ours)
