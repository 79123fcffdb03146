"""Compiled programs of a JAX loss: each record's gradient, the steps of a round, and scores.

The user's code is traced once, on one record, and every program is made from that trace, so state or random draws of
the code have no effect. Programs are compiled ahead of time, for one thread, and each for one shape of its arrays; an
extra argument gives the part in use, so that changing round sizes need no recompilation.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun

from crescendo.core.arrays import Array
from crescendo.errors import ConfigError
from crescendo.objectives.neural.pytrees import Leaves

Tree = list[Any]  # the leaves of the parameters, or of arrays with the same layout
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's own
_WAYS_OUT = ("callback", "debug_print", "ffi_call", "custom_call", "infeed", "outfeed")
_ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
_RECORDS = 256  # at most, in one call of a program
_NUMBERS = 1 << 22  # in total, in these records


class LocalSteps(NamedTuple):
    """Arguments of a step program, per step. Without ``drawn`` each entry has records and is a separate step.

    ``shrink`` multiplies the model, before the gradient if the records were drawn and after it if not. ``x`` has a
    record's shape after the first two sides, the steps and the places of a batch; ``weight`` is a record's in the
    gradient. A gradient is added to those since the last step if ``has``, and the step is taken if ``takes``.
    """

    x: Any
    y: Any
    weight: Any
    eta: Any
    spread: Any
    shrink: Any
    has: Any
    takes: Any


class Programs:
    """All programs for records of one shape."""

    def __init__(
        self, loss: Callable[..., Any], predict: Callable[..., Any] | None, leaves: Leaves, shape: tuple[int, ...]
    ) -> None:
        self._leaves, self._shape, self._lock = leaves, shape, threading.Lock()
        self._known: dict[Any, Callable[..., Any]] = {}
        self._loss = _frozen(partial(_loss_of_one, loss), leaves, shape, labels=True)
        self._maps = self._can_be_mapped()
        self._predict = None if predict is None else _frozen(partial(_decision, predict), leaves, shape, labels=False)
        self.leaves_by = self._way_out()

    @property
    def records(self) -> int:
        """The number of records per call: a power of two, bounded by memory."""
        most = max(1, min(_RECORDS, _NUMBERS // max(1, int(np.prod(self._shape)))))
        return 1 << (most.bit_length() - 1)

    def _run(self, key: Any, function: Callable[..., Any], *given: Any) -> Any:
        """Run the function by the program of that key, compiled once for arguments of these shapes."""
        try:
            with self._lock:
                if key not in self._known:
                    like = jax.tree.map(lambda a: _like(np.shape(a), a.dtype), given)
                    self._known[key] = jax.jit(function).lower(*like).compile(compiler_options=_ONE_THREAD)
            return jax.block_until_ready(self._known[key](*given))
        except Exception as error:  # from a callback, say; the last line of JAX's traceback has the error
            said = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
            raise ConfigError(f"the code of the model failed with {said[-1]}") from error

    def _tree(self) -> Tree:
        return [_like(shape, self._leaves.dtype) for shape in self._leaves.shapes]

    def _slope(self, leaves: Tree, x: Any, y: Any) -> Tree:
        """Return one record's gradient; x and y have a first dimension of 1."""
        found: Tree = jax.grad(lambda these: self._loss(*these, x, y)[0])(leaves)
        return found

    def _mean_slope(self, leaves: Tree, x: Any, y: Any, weight: Any) -> Tree:
        """Return the gradient of a batch: that of the weighted sum of its records' separate losses."""

        def total(these: Tree) -> Any:
            return jnp.dot(weight, self._losses(these, x, y))

        found: Tree = jax.grad(total)(leaves)
        return found

    def _losses(self, leaves: Tree, x: Any, y: Any) -> Any:
        """Return each record's loss, all at once if JAX can map the code over records, otherwise one by one."""

        def of_one(record: Any) -> Any:
            return self._loss(*leaves, record[0][None], record[1][None])[0]

        return jax.vmap(of_one)((x, y)) if self._maps else lax.map(of_one, (x, y))

    def _can_be_mapped(self) -> bool:
        self._maps = True
        record = (_like((2, *self._shape), self._leaves.dtype), _like((2,), np.int32))
        try:
            jax.make_jaxpr(self._mean_slope)(self._tree(), *record, _like((2,), self._leaves.dtype))
        except Exception:  # a callback, say, or an operation without a rule for many records
            return False
        return True

    def _way_out(self) -> str | None:
        """Return the first operation of loss, gradient or prediction that runs code on the host, or None."""
        record = (_like((1, *self._shape), self._leaves.dtype), _like((1,), np.int32))
        tree = self._tree()
        traced = [jax.make_jaxpr(self._loss)(*tree, *record), jax.make_jaxpr(self._slope)(tree, *record)]
        if self._predict is not None:
            traced.append(jax.make_jaxpr(self._predict)(*tree, record[0]))
        return next((found for one in traced if (found := way_out(one.jaxpr)) is not None), None)

    # -- one record at a time -----------------------------------------------------------------------------------------

    def gradients(self, leaves: Tree, x: Array, y: Array, count: int) -> list[Array]:
        """Return, for each leaf, one row for each of the first ``count`` records of a chunk, computed one by one by
        the same code.

        So other records have no influence, and a record's position only decides the place of its rows.
        """

        def run(leaves: Tree, x: Any, y: Any, count: Any) -> Any:
            def body(k: Any, rows: Tree) -> Tree:
                slope = self._slope(leaves, _at(x, k)[None], _at(y, k)[None])
                return [lax.dynamic_update_index_in_dim(r, s, k, 0) for r, s in zip(rows, slope, strict=True)]

            return lax.fori_loop(0, count, body, [jnp.zeros((len(x), *leaf.shape), leaf.dtype) for leaf in leaves])

        found = self._run(("gradients", len(x)), run, leaves, x, y, np.int32(count))
        return [np.asarray(rows).reshape(len(x), n)[:count] for rows, n in zip(found, self._leaves.sizes, strict=True)]

    def summed(self, leaves: Tree, x: Array, y: Array, weight: Array) -> Tree:
        """Return the weighted sum of ``records`` records' gradients, all at once; for measurement only."""
        found: Tree = self._run(("summed", len(x)), self._mean_slope, leaves, x, y, weight)
        return found

    def scores(self, leaves: Tree, x: Array, y: Array) -> tuple[Array, Array | None]:
        """Return the loss of each of ``records`` records, and its prediction."""

        def run(leaves: Tree, x: Any, y: Any) -> Any:
            losses = self._losses(leaves, x, y)
            if self._predict is None:
                return losses, losses
            return losses, lax.map(lambda one: self._predict(*leaves, one[None])[0], x)

        losses, decided = self._run(("scores", len(x)), run, leaves, x, y)
        return np.asarray(losses), None if self._predict is None else np.asarray(decided)

    # -- the steps of a round -----------------------------------------------------------------------------------------

    def walk(
        self,
        rule: str,
        momentum: float,
        drawn: bool,
        carried: tuple[Any, ...],
        steps: LocalSteps,
        count: int,
        mask: Tree,
    ) -> tuple[Any, ...]:
        """Take the first ``count`` of these steps in one compiled loop. Coordinates with a false ``mask`` do not move.

        ``carried`` is the leaves, the optimiser's state and, if records were ``drawn``, the gradient since the last
        step.
        """

        def run(carried: Any, steps: LocalSteps, count: Any, mask: Tree) -> Any:
            taken = partial(self._drawn_step if drawn else self._plain_step, rule, momentum, mask)
            return lax.fori_loop(
                0, count, lambda i, carried: taken(carried, LocalSteps(*(_at(a, i) for a in steps))), carried
            )

        key = ("steps", rule, momentum, drawn, bool(mask), steps.y.shape)
        found: tuple[Any, ...] = self._run(key, run, carried, steps, np.int32(count), mask)
        return found

    def _plain_step(self, rule: str, momentum: float, mask: Tree, carried: Any, step: LocalSteps) -> Any:
        leaves, state = carried
        shrunk = [w * step.shrink for w in leaves]
        moved, state = _moved(rule, momentum, shrunk, state, self._of_batch(leaves, step), step)
        return _where(mask, moved, leaves), state

    def _drawn_step(self, rule: str, momentum: float, mask: Tree, carried: Any, step: LocalSteps) -> Any:
        leaves, state, slopes = carried
        shrunk = _where(mask, [w * step.shrink for w in leaves], leaves)

        def added(_: Any) -> Tree:
            return [a + b for a, b in zip(slopes, self._of_batch(shrunk, step), strict=True)]

        slopes = lax.cond(step.has, added, lambda _: slopes, None)

        def taken(_: Any) -> Any:
            moved, after = _moved(rule, momentum, shrunk, state, slopes, step)
            return _where(mask, moved, shrunk), after, [jnp.zeros_like(a) for a in slopes]

        return lax.cond(step.takes, taken, lambda _: (shrunk, state, slopes), None)

    def _of_batch(self, leaves: Tree, step: LocalSteps) -> Tree:
        """Return a batch's gradient; in a batch of one the weight is 1."""
        if step.y.shape[0] == 1:
            return self._slope(leaves, step.x, step.y)
        return self._mean_slope(leaves, step.x, step.y, step.weight)


def first_state(rule: str, momentum: float, leaves: Tree) -> Tree:
    """Return an optimiser's state at a round's start: empty, a velocity, or Adam's two means, laid out like the leaves."""
    many = 2 if rule == "adam" else 1 if momentum else 0
    return [[np.zeros_like(leaf) for leaf in leaves] for _ in range(many)]


def corrections(rule: str, numbers: Array) -> tuple[Array, Array]:
    """Return the divisors of step size and spread for step ``numbers`` of a round, since Adam's means begin at 0."""
    if rule != "adam":
        return np.ones(len(numbers)), np.ones(len(numbers))
    first, second = (1 - decay ** numbers.astype(np.float64) for decay in _DECAYS)
    return first, np.sqrt(second)


def _moved(rule: str, momentum: float, leaves: Tree, state: Tree, slopes: Tree, step: LocalSteps) -> tuple[Tree, Tree]:
    """Take one step of SGD, heavy ball or Adam, as in `torch.optim`."""
    if rule == "adam":
        means = [m + (1 - _DECAYS[0]) * (g - m) for m, g in zip(state[0], slopes, strict=True)]
        squares = [_DECAYS[1] * s + (1 - _DECAYS[1]) * g * g for s, g in zip(state[1], slopes, strict=True)]
        after = [
            w - step.eta * m / (jnp.sqrt(s) / step.spread + _EPSILON)
            for w, m, s in zip(leaves, means, squares, strict=True)
        ]
        return after, [means, squares]
    if momentum:
        slopes = [momentum * v + g for v, g in zip(state[0], slopes, strict=True)]
        state = [slopes]
    return [w - step.eta * g for w, g in zip(leaves, slopes, strict=True)], state


def _where(mask: Tree, moved: Tree, stayed: Tree) -> Tree:
    if not mask:
        return moved
    return [jnp.where(m, a, b) for m, a, b in zip(mask, moved, stayed, strict=True)]


def _at(array: Any, k: Any) -> Any:
    return lax.dynamic_index_in_dim(array, k, 0, keepdims=False)


def _like(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def _frozen(function: Callable[..., Any], leaves: Leaves, shape: tuple[int, ...], labels: bool) -> Callable[..., Any]:
    """Trace the code once; refuse code whose second trace differs, since it is not a pure function."""
    tree = leaves.tree([_like(one, leaves.dtype) for one in leaves.shapes])
    record = (_like((1, *shape), leaves.dtype), _like((1,), np.int32))[: 1 + labels]
    # A new function each time: JAX caches traces by function.
    first, second = (jax.make_jaxpr(lambda *given: function(*given))(tree, *record) for _ in range(2))
    same = _text(first) == _text(second) and len(first.consts) == len(second.consts)
    if not same or any(_bytes(a) != _bytes(b) for a, b in zip(first.consts, second.consts, strict=True)):
        raise ConfigError(
            "the code changes each time JAX traces it, so it has state or random draws; write a pure function"
        )
    if labels and not _used(first.jaxpr, len(leaves.shapes)):
        raise ConfigError("the loss does not depend on the params; compute it from them")
    frozen: Callable[..., Any] = jaxpr_as_fun(first)
    return frozen


def _text(traced: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "", str(traced))  # the address of a function in memory


def _bytes(array: Any) -> bytes:
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array).tobytes()


def _used(jaxpr: Any, many: int) -> bool:
    params = {id(one) for one in jaxpr.invars[:many]}
    return any(id(one) in params for equation in jaxpr.eqns for one in equation.invars)


def way_out(jaxpr: Any) -> str | None:
    """Return the first operation of a trace that leaves its program: a callback, foreign code, or any side effect.

    >>> way_out(jax.make_jaxpr(lambda x: jax.debug.callback(print, x) or jnp.sin(x))(1.0).jaxpr)
    'debug_callback'
    >>> way_out(jax.make_jaxpr(jax.jit(jnp.sin))(1.0).jaxpr) is None
    True
    """
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if equation.effects or any(part in name for part in _WAYS_OUT):
            inner = next((found for one in _inside(equation) if (found := way_out(one)) is not None), None)
            return inner or name
        for one in _inside(equation):
            if (found := way_out(one)) is not None:
                return found
    return None


def _inside(equation: Any) -> Iterator[Any]:
    """Yield the traces within an operation: a branch, a loop's body, a separately compiled function."""
    for given in equation.params.values():
        for one in given if isinstance(given, tuple | list) else (given,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


def _loss_of_one(loss: Callable[..., Any], params: Any, x: Any, y: Any) -> Any:
    found = loss(params, x, y)
    kind = getattr(found, "dtype", None)
    if kind is None or not jnp.issubdtype(kind, jnp.floating) or found.shape not in ((), (1,)):
        said = type(found).__name__ if kind is None else f"array of {kind} and shape {found.shape}"
        raise ConfigError(
            f"the loss of one record is a {said}; an array of one number is needed: a mean, or one for each record"
        )
    return jnp.mean(found)


def _decision(predict: Callable[..., Any], params: Any, x: Any) -> Any:
    """Return the class of one record: the largest output, the sign of a single one, or the predicted whole number."""
    found = jnp.asarray(predict(params, x))
    if found.ndim not in (1, 2) or found.shape[0] != 1:
        raise ConfigError(
            f"predict gave shape {found.shape} for one record; a row of outputs or one label for each record is needed"
        )
    if found.ndim == 2 and found.shape[1] > 1:
        return jnp.argmax(found[0])
    only = found.reshape(1)[0]
    return only.astype(jnp.int32) if jnp.issubdtype(found.dtype, jnp.integer) else (only > 0).astype(jnp.int32)
