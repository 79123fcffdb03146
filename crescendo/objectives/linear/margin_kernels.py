"""Compiled loops of losses of one margin z = w . (x, 1): steps and sums of gradients, sparse and dense.

They are the same for the logistic loss and, ``squared``, for (z - y)^2 / 2: a gradient is the slope of the loss times
(x, 1).

The local model is ``scale * u`` on the block ``lo <= j < hi`` and ``u`` elsewhere, so the L2 shrink of a step costs
one multiplication for a model of any size. All state beyond a slot is in ``u`` and ``scale``, so a segment may be cut
anywhere without changing a bit. Models and values may be float32 or float64; all arithmetic is float64, rounded once,
when a coordinate is stored. With an intercept ``u`` has one more number than there are features.

The step loops are inlined instead of calling helpers: numba counts references to arrays passed to a function, which
made a sparse step three times as slow.
"""

import math

import numpy as np

from crescendo.core.arrays import Array
from crescendo.objectives.compiled import compiled

# Outside this range the scale is multiplied into u. Far from overflow in float32, and rare: once in 20/(eta l2) steps.
SMALLEST, LARGEST = 2.0**-30, 2.0**30

HUGE = 1e220  # with clips of at least 1e-60, slopes of shorter records are normal floats

U = np.uint64  # unsigned: a possibly negative index is tested at every access
F = np.float64


@compiled
def _slope(margin: float, y: float, squared: bool) -> float:
    """Return z - y, or d/dz log(1 + exp(-s z)) = -s / (1 + exp(s z)) without overflow, s = +1 for class 1, -1 for class 0."""
    if squared:
        return margin - y
    sign = 1.0 if y > 0.0 else -1.0
    m = sign * margin
    if m >= 0.0:
        e = math.exp(-m)
        return -sign * (e / (1.0 + e))
    return -sign * (1.0 / (1.0 + math.exp(m)))


@compiled
def _clipped(g: float, square: float, clip: float) -> float:
    """Return the slope that limits the norm of g * (x, 1) to ``clip``, given the squared norm of (x, 1)."""
    norm = math.sqrt(square)
    return g if abs(g) * norm <= clip else math.copysign(clip / norm, g)


@compiled
def _clipped_with_care(g: float, clip: float, x: Array, ones: float) -> float:
    """Clip with a non-finite slope or square: a non-finite gradient counts as 0, but squares alone may overflow.

    A record beyond HUGE also counts as 0: its slope would be subnormal, and rounding could double the clipped gradient.
    """
    unit, square = 1.0, 0.0
    for p in range(x.size):
        if not abs(F(x[p])) < HUGE:
            return 0.0
        unit = max(unit, abs(F(x[p])))
    if not math.isfinite(g):
        return 0.0
    for p in range(x.size):
        square += (F(x[p]) / unit) ** 2
    norm = math.sqrt(square + ones / unit / unit)
    return g if abs(g) * unit * norm <= clip else math.copysign(clip / unit / norm, g)


@compiled
def _fold(u: Array, scale: float, lo: int, hi: int) -> None:
    """Multiply the scale into the block; a zero or non-finite scale has the same effect there as on the model."""
    for j in range(lo, hi):
        u[j] *= scale


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
    squared: bool,
) -> float:
    """Run slots h0..h1-1 on ``u`` in place; return the new scale. ``clip`` 0: none. ``ends`` empty: one record per slot."""
    single, whole, last = ends.size == 0, lo == 0 and hi == u.size, U(features)
    intercept, moves = u.size > features, lo <= features < hi
    for h in range(h0, h1):
        step = etas[h] * factor
        first, stop = h, h + 1
        if not single:
            first, stop = ends[h - 1] if h > 0 else 0, ends[h]
            scale *= 1.0 - step * l2
            if not SMALLEST <= abs(scale) <= LARGEST:
                _fold(u, scale, lo, hi)
                scale = 1.0
        for i in range(first, stop):
            r = U(rows[i])
            a, b = U(indptr[r]), U(indptr[r + U(1)])
            inside = outside = 0.0
            if whole:
                for p in range(a, b):
                    inside += F(values[p]) * F(u[U(indices[p])])
            else:
                for p in range(a, b):
                    if lo <= indices[p] < hi:
                        inside += F(values[p]) * F(u[U(indices[p])])
                    else:
                        outside += F(values[p]) * F(u[U(indices[p])])
            if intercept:
                if moves:
                    inside += F(u[last])
                else:
                    outside += F(u[last])
            g = _slope(scale * inside + outside, y[r], squared)
            if clip > 0.0:
                square = 1.0 if intercept else 0.0
                for p in range(a, b):
                    square += F(values[p]) * F(values[p])
                if g - g + square < math.inf:
                    g = _clipped(g, square, clip)
                else:
                    g = _clipped_with_care(g, clip, values[a:b], 1.0 if intercept else 0.0)
            if single and l2 != 0.0:  # the margin was taken before the shrink, as in w - eta (g(w) + l2 w)
                scale *= 1.0 - step * l2
                if not SMALLEST <= abs(scale) <= LARGEST:
                    _fold(u, scale, lo, hi)
                    scale = 1.0
            by = step * g / scale
            if by == 0.0 and clip > 0.0:  # a gradient counted as 0 must not touch the model: 0 * inf is not 0
                continue
            if whole:
                for p in range(a, b):
                    u[U(indices[p])] -= by * F(values[p])
            else:
                for p in range(a, b):
                    if lo <= indices[p] < hi:
                        u[U(indices[p])] -= by * F(values[p])
            if intercept and moves:
                u[last] -= by
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
    squared: bool,
) -> float:
    """The same for a dense ``x``. The block's part of a margin is summed in four lanes, coordinate j in lane (j-lo) mod 4."""
    single, end, last = ends.size == 0, min(hi, features), U(features)
    intercept, moves = u.size > features, lo <= features < hi
    for h in range(h0, h1):
        step = etas[h] * factor
        first, stop = h, h + 1
        if not single:
            first, stop = ends[h - 1] if h > 0 else 0, ends[h]
            scale *= 1.0 - step * l2
            if not SMALLEST <= abs(scale) <= LARGEST:
                _fold(u, scale, lo, hi)
                scale = 1.0
        for i in range(first, stop):
            r = U(rows[i])
            s0 = s1 = s2 = s3 = outside = 0.0
            for k in range((end - lo) // 4):
                j = U(lo + 4 * k)
                s0 += F(x[r, j]) * F(u[j])
                s1 += F(x[r, j + U(1)]) * F(u[j + U(1)])
                s2 += F(x[r, j + U(2)]) * F(u[j + U(2)])
                s3 += F(x[r, j + U(3)]) * F(u[j + U(3)])
            for k in range(max(end - (end - lo) % 4, lo), end):
                term = F(x[r, U(k)]) * F(u[U(k)])
                if (k - lo) % 4 == 0:
                    s0 += term
                elif (k - lo) % 4 == 1:
                    s1 += term
                else:
                    s2 += term
            for k in range(min(lo, features)):
                outside += F(x[r, U(k)]) * F(u[U(k)])
            for k in range(end, features):
                outside += F(x[r, U(k)]) * F(u[U(k)])
            inside = (s0 + s1) + (s2 + s3)
            if intercept:
                if moves:
                    inside += F(u[last])
                else:
                    outside += F(u[last])
            g = _slope(scale * inside + outside, y[r], squared)
            if clip > 0.0:
                square = 1.0 if intercept else 0.0
                for k in range(features):
                    square += F(x[r, U(k)]) * F(x[r, U(k)])
                if g - g + square < math.inf:
                    g = _clipped(g, square, clip)
                else:
                    g = _clipped_with_care(g, clip, x[r], 1.0 if intercept else 0.0)
            if single and l2 != 0.0:
                scale *= 1.0 - step * l2
                if not SMALLEST <= abs(scale) <= LARGEST:
                    _fold(u, scale, lo, hi)
                    scale = 1.0
            by = step * g / scale
            if by == 0.0 and clip > 0.0:
                continue
            for k in range(lo, end):
                u[U(k)] -= by * F(x[r, U(k)])
            if intercept and moves:
                u[last] -= by
    return scale


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
    squared: bool,
) -> None:
    """Add the gradients of ``rows`` at ``w``, each clipped unless ``clip`` is 0, to ``total``.

    With a ``unit``, a power of two, each number of each gradient is rounded to a multiple of it, by adding and
    subtracting a float whose last bit is the unit. Sums of multiples below 2^53 units are exact in any order.
    """
    intercept, anchor = w.size > features, 1.5 * 2.0**52 * unit
    for i in range(rows.size):
        r = rows[i]
        margin, square = (w[features], 1.0) if intercept else (0.0, 0.0)
        for p in range(indptr[r], indptr[r + 1]):
            margin += F(values[p]) * w[indices[p]]
            square += F(values[p]) * F(values[p])
        g = _slope(margin, y[r], squared)
        if clip > 0.0:
            if g - g + square < math.inf:
                g = _clipped(g, square, clip)
            else:
                g = _clipped_with_care(g, clip, values[indptr[r] : indptr[r + 1]], 1.0 if intercept else 0.0)
                if g == 0.0:  # must not be multiplied by a non-finite value
                    continue
        for p in range(indptr[r], indptr[r + 1]):
            total[indices[p]] += (g * F(values[p]) + anchor) - anchor
        if intercept:
            total[features] += (g + anchor) - anchor


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
    squared: bool,
) -> None:
    """The same for a dense ``x``."""
    intercept, anchor = w.size > features, 1.5 * 2.0**52 * unit
    for i in range(rows.size):
        r = rows[i]
        margin, square = (w[features], 1.0) if intercept else (0.0, 0.0)
        for j in range(features):
            margin += F(x[r, j]) * w[j]
            square += F(x[r, j]) * F(x[r, j])
        g = _slope(margin, y[r], squared)
        if clip > 0.0:
            if g - g + square < math.inf:
                g = _clipped(g, square, clip)
            else:
                g = _clipped_with_care(g, clip, x[r], 1.0 if intercept else 0.0)
                if g == 0.0:
                    continue
        for j in range(features):
            total[j] += (g * F(x[r, j]) + anchor) - anchor
        if intercept:
            total[features] += (g + anchor) - anchor
