"""LeNet-5 by private steps in plain float32, for searching settings alone: no certificate, and an epsilon is never stated of it.

Four clients that all compute a round at the same model release four noisy sums, which add up to one: the sum of all clipped
gradients, with noise of 2 sigma C. That is computed here by one program. A record's gradient is not written out: in a dense layer
its length is that of the inputs times that of what flows back, so that a batch is clipped in one pass.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crescendo.core.arrays import Array, Floats, Ints

Pairs = list[tuple[Any, Any]]
_SHAPES = ((6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84))
_AT_ONCE = 64  # records: more of them leave the processor's cache
_ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}


def _columns(x: Any, pad: int) -> tuple[Any, int]:
    x = jnp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    out = x.shape[2] - 4
    patches = [x[:, :, i : i + out, j : j + out] for i in range(5) for j in range(5)]
    return jnp.stack(patches, axis=2).reshape(len(x), -1, out * out), out


def _layers(bend: Any, largest: bool, params: Pairs, shifts: list[Any], x: Any) -> tuple[Any, list[Any]]:
    """The outputs, and what enters each layer. ``shifts`` are added to what a layer gives: their slope is what flows back."""
    x, entered = x.reshape(len(x), 1, 28, 28), []
    for k, pad in ((0, 2), (1, 0)):
        columns, side = _columns(x, pad)
        weight, bias = params[k]
        given = jnp.einsum("ok,nkp->nop", weight.reshape(len(weight), -1), columns) + bias[:, None] + shifts[k]
        squares = bend(given).reshape(len(x), len(weight), side // 2, 2, side // 2, 2)
        x = squares.max(axis=(3, 5)) if largest else squares.mean(axis=(3, 5))
        entered.append(columns)
    x = x.reshape(len(x), -1)
    for k in (2, 3, 4):
        entered.append(x)
        x = x @ params[k][0].T + params[k][1] + shifts[k]
        x = bend(x) if k < 4 else x
    return x, entered


def _clipped_sum(bend: Any, largest: bool, params: Pairs, x: Any, y: Any, here: Any, clip: Any) -> Pairs:
    """The sum of the clipped gradients of the records that are ``here``; the others fill the batch."""
    count = len(x)
    shifts = [jnp.zeros((count, *side)) for side in ((6, 784), (16, 100), (120,), (84,), (10,))]

    def loss(shifts: list[Any]) -> tuple[Any, list[Any]]:
        outputs, entered = _layers(bend, largest, params, shifts, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).sum(), entered

    back, entered = jax.grad(loss, has_aux=True)(shifts)
    each = [(jnp.einsum("nop,nkp->nok", back[k], entered[k]), back[k].sum(2)) for k in (0, 1)]
    squares = sum((part.reshape(count, -1) ** 2).sum(1) for pair in each for part in pair)
    for k in (2, 3, 4):
        squares += (back[k] ** 2).sum(1) * ((entered[k] ** 2).sum(1) + 1)
    factor = here * jnp.minimum(1.0, clip / jnp.sqrt(squares))
    summed = [(jnp.einsum("nok,n->ok", each[k][0], factor), factor @ each[k][1]) for k in (0, 1)]
    dense = [back[k] * factor[:, None] for k in (2, 3, 4)]
    return summed + [(part.T @ entered[k], part.sum(0)) for k, part in zip((2, 3, 4), dense, strict=True)]


@cache
def _program(activation: str, pool: str) -> Any:
    bend = {"relu": jax.nn.relu, "tanh": jnp.tanh}[activation]

    def run(params: Pairs, x: Any, y: Any, here: Any, chunks: Any, clip: Any) -> Any:
        def body(k: Any, total: Any) -> Any:
            some: Any = [jax.lax.dynamic_slice_in_dim(one, k * _AT_ONCE, _AT_ONCE) for one in (x, y, here)]
            shown, labels, weight = some
            pairs = _clipped_sum(bend, pool == "max", params, shown, labels, weight, clip)
            return total + jnp.concatenate([part.ravel() for pair in pairs for part in pair])

        return jax.lax.fori_loop(0, chunks, body, jnp.zeros(61_706))

    return partial(jax.jit, compiler_options=_ONE_THREAD)(run)


def pairs_of(w: Floats) -> Pairs:
    """Weights and biases of the flat vector that the networks of ours have."""
    made, at = [], 0
    for shape in _SHAPES:
        size = int(np.prod(shape))
        parts = w[at : at + size].reshape(shape), w[at + size : at + size + shape[0]]
        made.append((parts[0].astype(np.float32), parts[1].astype(np.float32)))
        at += size + shape[0]
    return made


def clipped_sum(w: Floats, x: Array, y: Array, rows: Ints, clip: float, activation: str, pool: str) -> Floats:
    """The sum of these rows' clipped gradients; ``x`` as the network reads it, standardised if it is to be."""
    room = _AT_ONCE << max(0, int(np.ceil(np.log2(max(1, len(rows)) / _AT_ONCE))))  # few shapes: each is compiled once
    padded, here = np.zeros(room, np.int32), np.zeros(room, np.float32)
    padded[: len(rows)], here[: len(rows)] = rows, 1
    chunks = np.int32(-(-len(rows) // _AT_ONCE))
    program = _program(activation, pool)
    return np.asarray(program(pairs_of(w), x[padded], y[padded], here, chunks, np.float32(clip)), dtype=np.float64)


def accuracy(w: Floats, x: Array, y: Array, activation: str, pool: str) -> float:
    hits, program = 0, _outputs(activation, pool)
    for first in range(0, len(x), 500):
        hits += int((np.asarray(program(pairs_of(w), x[first : first + 500])) == y[first : first + 500]).sum())
    return hits / len(x)


@cache
def _outputs(activation: str, pool: str) -> Any:
    bend = {"relu": jax.nn.relu, "tanh": jnp.tanh}[activation]

    def run(params: Pairs, x: Any) -> Any:
        return _layers(bend, pool == "max", params, [0.0] * 5, x)[0].argmax(1)

    return partial(jax.jit, compiler_options=_ONE_THREAD)(run)
