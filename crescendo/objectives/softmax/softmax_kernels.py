"""Compiled loops of softmax regression: steps and sums of gradients, sparse and dense.

Number ``j * classes + k`` of the model is the weight of feature j for class k; the intercepts, one per class, come
last. A record's gradient is the product of (x, 1) and q, where q has the class probabilities, minus 1 at the record's
own class. So its norm is the product of two norms, and clipping it over all coordinates means clipping q.

As in `margin_kernels` the local model is ``scale * u`` on the block ``lo <= j < hi`` and ``u`` elsewhere, all
arithmetic is float64, and a segment may be cut anywhere without changing a bit.
"""

import math

import numpy as np

from crescendo.core.arrays import Array
from crescendo.objectives.compiled import compiled

SMALLEST, LARGEST = 2.0**-30, 2.0**30  # outside this range the scale is multiplied into u

PART = 64  # features processed together, class by class, so that their weights stay in the L1 cache

HUGE = 1e220  # with clips of at least 1e-60, clipped numbers of q are normal floats for shorter records

U = np.uint64  # unsigned: a possibly negative index is tested at every access
F = np.float64


@compiled
def _off(q: Array, z: Array, own: int) -> float:
    """Set q to softmax(z), minus 1 at the ``own`` class, computed there as minus the sum of the others, to keep all
    digits.

    Return |q|, computed from numbers of order 1: squares of small probabilities would underflow.
    """
    largest = z[0]
    for k in range(1, z.size):
        largest = max(largest, z[k])
    total = others = 0.0
    for k in range(z.size):
        q[k] = math.exp(z[k] - largest)
        total += q[k]
        if k != own:
            others += q[k]
    squares = 1.0
    for k in range(z.size):
        if k != own:
            if others > 0.0:
                squares += (q[k] / others) ** 2
            q[k] /= total
    q[own] = -others / total
    return float(-q[own] * math.sqrt(squares))


@compiled
def _length(x: Array, ones: float) -> float:
    """Return |(x, 1)| with ``ones`` 1, or |x| with 0; infinite for a record with a NaN or a number beyond HUGE."""
    square = ones
    for p in range(x.size):
        square += F(x[p]) * F(x[p])
    if square < math.inf:
        return math.sqrt(square)
    unit, square = 1.0, 0.0
    for p in range(x.size):
        if not abs(F(x[p])) < HUGE:
            return math.inf
        unit = max(unit, abs(F(x[p])))
    for p in range(x.size):
        square += (F(x[p]) / unit) ** 2
    return unit * math.sqrt(square + ones / unit / unit)


@compiled
def _clipped(q: Array, off: float, length: float, clip: float) -> bool:
    """Scale q down so that the gradient's norm is at most ``clip``; return False for a non-finite gradient (counts as 0)."""
    norm = off * length
    if not norm < math.inf:
        return False
    if norm > clip:
        for k in range(q.size):
            q[k] *= clip / norm
    return True


@compiled
def _shrunk(u: Array, scale: float, shrink: float, lo: int, hi: int) -> float:
    """Return the new scale; one that is very small or large, zero or non-finite is multiplied into the block."""
    if shrink == 1.0:
        return scale
    scale *= shrink
    if SMALLEST <= abs(scale) <= LARGEST:
        return scale
    for j in range(lo, hi):
        u[j] *= scale
    return 1.0


@compiled
def _margins(z: Array, u: Array, scale: float, values: Array, indices: Array, features: int, lo: int, hi: int) -> None:
    """Compute the margin of every class, for a dense row if ``indices`` is empty, otherwise for a sparse one."""
    classes, dense = z.size, indices.size == 0
    whole, ones = lo == 0 and hi == u.size, u.size > features * classes
    for k in range(classes):
        z[k] = 0.0
    if whole:
        for begin in range(0, values.size, PART):
            end = min(begin + PART, values.size)
            for first in range(0, classes - 3, 4):  # four sums in registers
                s0, s1, s2, s3 = z[first], z[first + 1], z[first + 2], z[first + 3]
                for p in range(begin, end):
                    v, at = F(values[p]), U((p if dense else indices[p]) * classes + first)
                    s0 += v * F(u[at])
                    s1 += v * F(u[at + U(1)])
                    s2 += v * F(u[at + U(2)])
                    s3 += v * F(u[at + U(3)])
                z[first], z[first + 1], z[first + 2], z[first + 3] = s0, s1, s2, s3
            for k in range(classes - classes % 4, classes):
                s0 = z[k]
                for p in range(begin, end):
                    s0 += F(values[p]) * F(u[U((p if dense else indices[p]) * classes + k)])
                z[k] = s0
        for k in range(classes):
            z[k] = scale * (z[k] + (F(u[features * classes + k]) if ones else 0.0))
        return
    for p in range(values.size):
        first = (p if dense else indices[p]) * classes
        for k in range(classes):
            j = first + k
            z[k] += F(values[p]) * (F(u[j]) * scale if lo <= j < hi else F(u[j]))
    if ones:
        for k in range(classes):
            j = features * classes + k
            z[k] += F(u[j]) * scale if lo <= j < hi else F(u[j])


@compiled
def _move(u: Array, by: Array, values: Array, indices: Array, features: int, lo: int, hi: int) -> None:
    """Subtract the product of ``by`` and (x, 1) from the block."""
    classes, dense = by.size, indices.size == 0
    whole, ones = lo == 0 and hi == u.size, u.size > features * classes
    if whole:
        for p in range(values.size):
            v, row = F(values[p]), U((p if dense else indices[p]) * classes)
            for k in range(U(classes)):
                u[row + k] -= by[k] * v
    else:
        for p in range(values.size):
            first = (p if dense else indices[p]) * classes
            for k in range(classes):
                if lo <= first + k < hi:
                    u[first + k] -= by[k] * F(values[p])
    if ones:
        for k in range(classes):
            if lo <= features * classes + k < hi:
                u[features * classes + k] -= by[k]


@compiled
def _step(
    u: Array,
    scale: float,
    values: Array,
    indices: Array,
    features: int,
    own: int,
    step: float,
    shrink: float,
    lo: int,
    hi: int,
    clip: float,
    z: Array,
    q: Array,
) -> float:
    """Take one record's step and return the new scale; ``shrink`` is the L2 factor applied after the margins."""
    _margins(z, u, scale, values, indices, features, lo, hi)
    off = _off(q, z, own)
    moves = True
    if clip > 0.0:
        ones = 1.0 if u.size > features * q.size else 0.0
        moves = _clipped(q, off, _length(values, ones), clip)
    scale = _shrunk(u, scale, shrink, lo, hi)
    if moves:
        for k in range(q.size):
            q[k] = step * q[k] / scale
        _move(u, q, values, indices, features, lo, hi)
    return scale


@compiled
def advance_dense(
    u: Array,
    scale: float,
    x: Array,
    features: int,
    y: Array,
    rows: Array,
    ends: Array,
    etas: Array,
    h0: int,
    h1: int,
    lo: int,
    hi: int,
    factor: float,
    l2: float,
    clip: float,
    classes: int,
) -> float:
    """Run slots h0..h1-1 on ``u`` in place; return the new scale. ``clip`` 0: none. ``ends`` empty: one record per slot."""
    z, q, none = np.empty(classes), np.empty(classes), np.empty(0, np.int32)
    for h in range(h0, h1):
        step = etas[h] * factor
        first, stop, shrink = h, h + 1, 1.0 - step * l2
        if ends.size > 0:
            first, stop = ends[h - 1] if h > 0 else 0, ends[h]
            scale = _shrunk(u, scale, shrink, lo, hi)
            shrink = 1.0
        for i in range(first, stop):
            r = rows[i]
            scale = _step(u, scale, x[r], none, features, int(y[r]), step, shrink, lo, hi, clip, z, q)
    return scale


@compiled
def advance_sparse(
    u: Array,
    scale: float,
    values: Array,
    indices: Array,
    indptr: Array,
    features: int,
    y: Array,
    rows: Array,
    ends: Array,
    etas: Array,
    h0: int,
    h1: int,
    lo: int,
    hi: int,
    factor: float,
    l2: float,
    clip: float,
    classes: int,
) -> float:
    """The same for sparse records."""
    z, q = np.empty(classes), np.empty(classes)
    for h in range(h0, h1):
        step = etas[h] * factor
        first, stop, shrink = h, h + 1, 1.0 - step * l2
        if ends.size > 0:
            first, stop = ends[h - 1] if h > 0 else 0, ends[h]
            scale = _shrunk(u, scale, shrink, lo, hi)
            shrink = 1.0
        for i in range(first, stop):
            r = rows[i]
            a, b = indptr[r], indptr[r + 1]
            scale = _step(u, scale, values[a:b], indices[a:b], features, int(y[r]), step, shrink, lo, hi, clip, z, q)
    return scale


@compiled
def _add(
    total: Array,
    w: Array,
    values: Array,
    indices: Array,
    features: int,
    own: int,
    clip: float,
    anchor: float,
    z: Array,
    q: Array,
) -> None:
    """Add one record's gradient at ``w``, each number rounded by means of ``anchor``: see `sum_dense`."""
    classes, dense = q.size, indices.size == 0
    ones = w.size > features * classes
    _margins(z, w, 1.0, values, indices, features, 0, w.size)
    off = _off(q, z, own)
    if clip > 0.0 and not _clipped(q, off, _length(values, 1.0 if ones else 0.0), clip):
        return
    for p in range(values.size):
        v, first = F(values[p]), (p if dense else indices[p]) * classes
        for k in range(classes):
            total[first + k] += (q[k] * v + anchor) - anchor
    if ones:
        for k in range(classes):
            total[features * classes + k] += (q[k] + anchor) - anchor


@compiled
def sum_dense(
    total: Array,
    w: Array,
    x: Array,
    features: int,
    y: Array,
    rows: Array,
    clip: float,
    unit: float,
    classes: int,
) -> None:
    """Add the gradients of ``rows`` at ``w``, each clipped unless ``clip`` is 0, to ``total``.

    With a ``unit``, a power of two, each number of each gradient is rounded to a multiple of it, by adding and
    subtracting a float whose last bit is the unit. Sums of multiples below 2^53 units are exact in any order.
    """
    z, q, none, anchor = np.empty(classes), np.empty(classes), np.empty(0, np.int32), 1.5 * 2.0**52 * unit
    for i in range(rows.size):
        r = rows[i]
        _add(total, w, x[r], none, features, int(y[r]), clip, anchor, z, q)


@compiled
def sum_sparse(
    total: Array,
    w: Array,
    values: Array,
    indices: Array,
    indptr: Array,
    features: int,
    y: Array,
    rows: Array,
    clip: float,
    unit: float,
    classes: int,
) -> None:
    """The same for sparse records."""
    z, q, anchor = np.empty(classes), np.empty(classes), 1.5 * 2.0**52 * unit
    for i in range(rows.size):
        r = rows[i]
        a, b = indptr[r], indptr[r + 1]
        _add(total, w, values[a:b], indices[a:b], features, int(y[r]), clip, anchor, z, q)
