"""The noise of a release: an ideal Gaussian added to a vector, rounded exactly to a public grid.

Theory of operation
-------------------
A float computed as ``x + scale * z`` with a float z is not a Gaussian release: the set of floats that can come out depends on x,
so an output that x cannot produce proves that the input was not x. The release is therefore defined without floats. With x the
float64 numbers as computed, u a uniform number of infinitely many bits and z its normal quantile,

    release  =  the multiple of g nearest to  x + scale * z,      g = 2^(floor(log2 scale) - 20),

a function of the ideal Gaussian mechanism's output, so every privacy bound on that output holds for the release.

A few bits of u suffice to find the multiple. The first 64-bit word of a number gives a sign and a cell of width 2^-53 in the
lower half of the uniforms. All quantiles of the cell lie within `_spread` of the float quantile at its middle, and x + scale * z
is taken with its rounding error, by two-sum. If that whole interval rounds to one multiple, this is the release. If it does not
(about once in ten million numbers), and always in the cell that touches 0, whose quantiles have no bound, more bits are drawn and
the multiple's two ends are compared with u in interval arithmetic (`_decided`).

Assumption: scipy's quantile has a relative error of at most 2^-45 (the largest seen was 4.9 * 2^-53; a test compares it with
mpmath). Counted into delta: after 512 further bits the middle of the cell decides, which happens with a chance below 2^-500.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from crescendo.core.arrays import Floats, Ints, Uints
from crescendo.errors import UsageError

_More: TypeAlias = Callable[[int], Iterator[int]]

GRID_BITS = 20  # a release has steps of between 2^-21 and 2^-20 of its noise
MOST_MULTIPLES = 2.0**50  # of the grid: the largest number that can be hidden
LEAST_SCALE, MOST_SCALE = 1e-200, 1e200  # far from where floats lose bits
QUANTILE_ERROR = 2.0**-45
CELL_BITS = 53  # of the uniform, in the first word: its lower half has 2^52 cells
_MOST_WORDS = 8  # further words of 64 bits before the middle of the cell decides
STOPPED = 2.0**-500  # a bound on the chance of that, for each number
_CHUNK = 1 << 15  # numbers that are handled together: they fit the cache


def grid(scale: float) -> float:
    """Return g: every number released with noise of this scale is a multiple of it.

    >>> grid(1.0) == 2.0**-20, grid(1.999) == 2.0**-20, grid(2.0) == 2.0**-19
    (True, True, True)
    """
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - GRID_BITS)


def noised(x: Floats, scale: float, words: Uints, more: _More) -> Floats:
    """Return ``x`` plus ideal Gaussian noise of deviation ``scale``, rounded to the grid.

    ``words`` holds 64 random bits per number, and ``more(j)`` yields further words of number j. Numbers beyond 2^50
    multiples of the grid are clamped: no certified sum is so large, and clamping brings no two sums further apart.

    >>> noised(np.array([3.0, 3.0]), 2.0, np.array([2**63, 2**63 + 1], dtype=np.uint64), lambda j: iter(()))
    array([1.65102005, 4.34897995])
    """
    if not LEAST_SCALE <= scale <= MOST_SCALE:
        raise UsageError(f"noise of scale {scale:g} cannot be drawn exactly; it must lie between 1e-200 and 1e200")
    g = grid(scale)
    released = np.empty(len(x))
    for low in range(0, len(x), _CHUNK):
        part = slice(low, low + _CHUNK)
        bounded = np.maximum(
            np.minimum(x[part], MOST_MULTIPLES * g), -MOST_MULTIPLES * g
        )  # np.clip takes five times as long
        multiples, doubtful = _nearest(bounded, scale, g, words[part])
        for j in doubtful:
            multiples[j] = _decided(float(bounded[j]), scale, g, int(words[low + j]), more(low + int(j)))
        released[part] = multiples * g + 0.0  # drops the sign of a zero: the ideal sum's zero has none
    return released


def word_of(z: Floats) -> Uints:
    """Return random words whose normal quantiles are next to ``z``, so that an auditor can choose the noise.

    >>> noised(np.zeros(3), 1.0, word_of(np.array([-1.5, 0.25, 2.0])), lambda j: iter(())).round(5)
    array([-1.5 ,  0.25,  2.  ])
    """
    from scipy.special import ndtr

    cells = np.clip(np.floor(ndtr(-np.abs(z)) * 2.0**CELL_BITS), 1, 2.0 ** (CELL_BITS - 1) - 1)
    words: Uints = (cells.astype(np.uint64) << np.uint64(65 - CELL_BITS)) | (np.asarray(z) > 0).astype(np.uint64)
    return words


def _cells(words: Uints) -> Floats:
    """Return the index of each word's cell in the lower half of the uniforms, below 2^52."""
    return (words >> np.uint64(65 - CELL_BITS)).astype(np.float64)


def _nearest(x: Floats, scale: float, g: float, words: Uints) -> tuple[Floats, Ints]:
    """Return the multiple of g nearest to x + scale z, and the indices for which the cell of u leaves it open."""
    from scipy.special import ndtri

    cells = _cells(words)
    z = ndtri((cells + 0.5) * 2.0**-CELL_BITS)  # below 0; the middle of a cell is a float
    spread = _spread(cells, z) * (scale / g)
    noise = ((words & np.uint64(1)) * (-2.0 * scale) + scale) * z  # the last bit is the sign
    total = x + noise
    rest = total - x
    rest = (x - (total - rest)) + (noise - rest)  # two-sum: x + noise = total + rest, without error
    total /= g
    multiples = np.rint(total)
    fraction = (total - multiples) + rest / g
    carry = np.rint(fraction)
    fraction -= carry
    return multiples + carry, np.flatnonzero(~(np.abs(fraction) + spread < 0.5 - 2.0**-40))


def _spread(cells: Floats, z: Floats) -> Floats:
    """Bound the distance of a cell's quantiles from the float quantile z at its middle; huge for cell 0, where no bound exists.

    A Gaussian's density is at least sqrt(2/pi) times its tail, so quantiles at u and u' > u are at most
    (u' - u) / (0.79 u) apart; a cell reaches half a width to either side, and begins at ``cells`` widths.
    """
    spread: Floats = (
        0.64 / np.maximum(cells, 1e-9) - 1.5 * QUANTILE_ERROR * z
    )  # half an error for the product with the scale
    return spread


# -- more bits -----------------------------------------------------------------------------------------------------------


def _decided(x: float, scale: float, g: float, word: int, more: Iterator[int]) -> float:
    """Return the multiple that the first word leaves open: add bits to u until one multiple is left."""
    sign = 1 if word & 1 else -1
    cell, bits = word >> (65 - CELL_BITS), CELL_BITS
    near = _Boundaries(Fraction(x) * sign, Fraction(scale), Fraction(g))
    for _ in range(_MOST_WORDS):
        cell, bits = (cell << 64) | next(more), bits + 64
        if cell and (found := near.multiple(cell, bits)) is not None:
            return float(sign * found)
    return float(sign * near.guess(max(cell, 1), bits))


class _Boundaries:
    """Half-way points between multiples of g as uniforms: x + scale |z| exceeds g (m - 1/2) if u is below a Gaussian tail.

    For z in the lower half of the uniforms, u = Q(|z|), and |z| > b means u < Q(b).
    """

    def __init__(self, x: Fraction, scale: Fraction, g: Fraction) -> None:
        self._x, self._scale, self._g = x, scale, g

    def guess(self, cell: int, bits: int) -> int:
        """Return the multiple at the middle of the cell, by floats: the right one or a neighbour."""
        from scipy.special import ndtri

        length = cell.bit_length()
        u = math.ldexp((cell >> max(0, length - 60)) + 0.5, max(0, length - 60) - bits)
        return round((self._x + self._scale * Fraction(-float(ndtri(u)))) / self._g)

    def multiple(self, cell: int, bits: int) -> int | None:
        """Return the one multiple to which every u of the cell leads; None if there are several."""
        low, high = Fraction(cell, 1 << bits), Fraction(cell + 1, 1 << bits)
        first = self.guess(cell, bits)
        for m in (first, first - 1, first + 1):
            below, above = self._at(Fraction(2 * m - 1, 2)), self._at(Fraction(2 * m + 1, 2))
            if above > 0 and _tail(above, bits)[1] <= low and (below <= 0 or high <= _tail(below, bits)[0]):
                return m
        return None

    def _at(self, m: Fraction) -> Fraction:
        return (self._g * m - self._x) / self._scale


def _tail(b: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound on Q(b) = P(N(0, 1) > b) for b > 0, some 2^-(bits + 100) apart.

    Q(b) = 1/2 - phi(b) (b + b^3/3 + b^5/15 + ...); each term is b^2/(2n+1) times the one before, so once this ratio is below
    1/2 the remainder is less than the last term. Interval arithmetic makes the bounds hold by construction.

    >>> low, high = _tail(Fraction(1), 53)
    >>> round(float(low), 15), high - low < Fraction(1, 2**140)
    (0.158655253931457, True)
    """
    from mpmath.ctx_iv import MPIntervalContext

    iv = MPIntervalContext()  # a new one: mpmath's shares one precision among all threads
    iv.prec = bits + 160
    exact = iv.mpf(b.numerator) / b.denominator
    square = exact * exact
    term = total = exact
    n = 1
    while 2 * square.b > 2 * n + 1 or term.b * 2**iv.prec > total.a:
        term = term * square / (2 * n + 1)
        total, n = total + term, n + 1
    total = total + iv.mpf([0, term.b])
    found = iv.mpf("0.5") - iv.exp(-square / 2) / iv.sqrt(2 * iv.pi) * total
    return _fraction(found.a), _fraction(found.b)


def _fraction(end: object) -> Fraction:
    """Return the end of an interval exactly."""
    sign, mantissa, exponent, _ = end._mpi_[0]  # type: ignore[attr-defined]
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** int(exponent)
