"""Inner range of a column's numbers, from noisy counts of ordered places, without access to records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.drafter.cell_places import OCTAVES

_MISTAKES = 0.01  # probability that a draft takes noise for records, anywhere in its octaves
_MOST = 0.985  # of the records: from there on a run of places is not extended
_MARGIN = 0.06  # of a run of bins, added on either side for records hidden by noise
_FURTHEST = 3  # octaves added at most to those that stand out
_DEEP = 8  # octaves below the outermost one of a run that are summed: numbers closer to 0 are negligible next to it
_ZERO = OCTAVES // 2


@dataclass(frozen=True)
class Stretch:
    """Places ``first`` to ``last - 1``, and the approximate number of records in them."""

    first: int
    last: int
    mass: float


def seen_at(tests: int) -> float:
    """Return the deviations above 0 that no place among so many reaches by noise alone, up to a small probability.

    >>> round(seen_at(1_000), 1)
    4.3
    """
    from scipy.special import ndtri

    return -float(ndtri(_MISTAKES / max(tests, 1)))


def _joined(windows: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """Join windows from the first place to the last, ignoring a wide window with a narrower one inside."""
    found = list[tuple[int, int]]()
    for first, last in windows:
        if not any(first <= low and high <= last for low, high in found):
            found.append((first, last))
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _seen(noisy: Floats, widest: int, surely: float) -> Iterator[tuple[int, int]]:
    """Yield runs of 1, 2, 4 and up to ``widest`` neighbours with a sum above ``surely``, scaled with the noise; narrow first."""
    sums, width = np.concatenate([[0.0], np.cumsum(noisy)]), 1
    while width <= min(widest, len(noisy)):
        for at in np.flatnonzero(sums[width:] - sums[:-width] > surely * math.sqrt(width)).tolist():
            yield at, at + width
        width *= 2


# -- bins ----------------------------------------------------------------------------------------------------------------


def inner_bins(noisy: Floats, noise: float, total: float) -> Stretch | None:
    """Return the run of bins with nearly all of ``total`` records, None if no bin stands out of the noise.

    All bins that stand out are joined; then bins are added at the heavier end until almost no record is missing, and
    a margin.

    >>> inner_bins(np.array([3.0, -2.0, 40.0, 55.0, 9.0, -4.0, 1.0, 2.0]), 4.0, 105.0)
    Stretch(first=2, last=5, mass=104.0)
    """
    found = _joined(_seen(noisy, len(noisy), noise * seen_at(2 * len(noisy))))
    if found is None:
        return None
    first, last = found
    while noisy[first:last].sum() < _MOST * total and last - first < len(noisy):
        before = float(noisy[first - 1]) if first > 0 else -np.inf
        after = float(noisy[last]) if last < len(noisy) else -np.inf
        first, last = (first - 1, last) if before > after else (first, last + 1)
    more = round(_MARGIN * (last - first))
    first, last = max(first - more, 0), min(last + more, len(noisy))
    return Stretch(first, last, float(noisy[first:last].sum()))


def middle(noisy: Floats, run: Stretch) -> int:
    """Return the place within the run at about the median of its records.

    >>> middle(np.array([3.0, -2.0, 40.0, 55.0, 9.0]), Stretch(2, 5, 104.0))
    3
    """
    passed = np.cumsum(noisy[run.first : run.last])
    return run.first + int(np.argmax(passed >= passed[-1] / 2))


# -- octaves -------------------------------------------------------------------------------------------------------------


def inner_octaves(noisy: Floats, noise: float, total: float, columns: int) -> Stretch | None:
    """Return the octaves with nearly all of ``total`` records, None if no octave stands out of the noise.

    If none does, the same octaves on both sides of 0 are tested together. All octaves that stand out are joined; then
    octaves are added, at either end or with the other sign, until almost no record is missing.

    >>> noisy = np.zeros(OCTAVES)
    >>> noisy[_ZERO + 129 : _ZERO + 131] = 60.0, 30.0
    >>> inner_octaves(noisy, 3.0, 100.0, columns=1)
    Stretch(first=385, last=387, mass=90.0)
    >>> noisy[_ZERO - 130] = 25.0
    >>> inner_octaves(noisy, 3.0, 115.0, columns=1)
    Stretch(first=126, last=387, mass=115.0)
    """
    surely = noise * seen_at(columns * 5 * OCTAVES)
    found = _joined(_seen(noisy, 4, surely)) or _joined(_seen_on_either_side(noisy, surely))
    if found is None:
        return None
    run = _run(noisy, *found)
    for _ in range(_FURTHEST):
        if run.mass >= _MOST * total:
            break
        longer = max(_longer(noisy, run), key=lambda one: one.mass - noise * _depth(one) ** 0.5)
        if longer.mass <= run.mass:
            break
        run = longer
    return run


def _seen_on_either_side(noisy: Floats, surely: float) -> Iterator[tuple[int, int]]:
    """Yield runs of 1, 2, 4 or 8 neighbours with those of the other sign, since numbers around 0 spread over many octaves."""
    folded = noisy[_ZERO + 1 :] + noisy[:_ZERO][::-1]
    for _, last in _seen(folded, 8, math.sqrt(2) * surely):
        yield _ZERO - last, _ZERO + 1 + last


def _run(noisy: Floats, first: int, last: int) -> Stretch:
    """Return a run with the records of its outer octaves, and of 0."""
    return Stretch(first, last, float(sum(noisy[part].sum() for part in _parts(first, last))))


def _depth(run: Stretch) -> int:
    """Return the number of places in its mass."""
    return sum(part.stop - part.start for part in _parts(run.first, run.last))


def _parts(first: int, last: int) -> list[slice]:
    away = max(_ZERO - first, last - 1 - _ZERO)
    near = max(away - _DEEP, 0)
    parts = [slice(first, min(last, _ZERO - near)), slice(max(first, _ZERO + near + 1), last)]
    if first <= _ZERO < last:
        parts.append(slice(_ZERO, _ZERO + 1))
    return [part for part in parts if part.start < part.stop]


def _longer(noisy: Floats, run: Stretch) -> Iterator[Stretch]:
    """Yield the run with one more octave at either end, or with the octaves of the other sign."""
    if run.first > 0:
        yield _run(noisy, run.first - 1, run.last)
    if run.last < OCTAVES:
        yield _run(noisy, run.first, run.last + 1)
    if run.first > _ZERO:
        yield _run(noisy, OCTAVES - run.last, run.last)
    if run.last <= _ZERO:
        yield _run(noisy, run.first, OCTAVES - run.first)
    yield run
