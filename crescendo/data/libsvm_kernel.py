"""The compiled loop under `crescendo.data.libsvm`; a module of its own, so that numba loads on the first parse.

Decimal to binary: when the digits make a whole number up to 2**53 and the power of ten is at most 22 in size, both are exact
in float64 and one multiplication or division rounds correctly (Clinger 1990). Any other number is *hard*: its place is noted,
and Python's own float reads it afterwards. So every value is the one that float() gives.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
compiled = numba.njit(nogil=True, cache=True)

LABEL, PAIR, ZERO, ORDER, LIMIT, NUMBER, FINITE = range(1, 8)  # what can be wrong with a word
_GOOD, _HARD, _BAD, _INFINITE = range(4)
_EXACT = 2**53
_TENS = 10.0 ** np.arange(23)
_NEWLINE, _HASH, _COLON, _DOT, _PLUS, _MINUS = (ord(c) for c in "\n#:.+-")


@compiled
def room(text: Bytes) -> tuple[int, int]:
    """Upper bounds on the number of rows and of cells."""
    lines, colons = 1, 0
    for byte in text:
        lines += byte == _NEWLINE
        colons += byte == _COLON
    return lines, colons


@compiled
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 9 or (11 <= byte <= 13)


@compiled
def _ends_word(text: Bytes, at: int) -> bool:
    return at >= text.size or _is_space(text[at]) or text[at] == _NEWLINE or text[at] == _HASH


@compiled
def _digits(text: Bytes, at: int, whole: int) -> tuple[int, int]:
    """Continue the whole number ``whole``; past 10**17 it stops growing, which every caller treats as too large."""
    while at < text.size and 48 <= text[at] <= 57:
        if whole < 10**17:
            whole = 10 * whole + (int(text[at]) - 48)
        at += 1
    return at, whole


@compiled
def _number(text: Bytes, at: int) -> tuple[int, float, int]:
    """Where the number that starts at ``at`` ends, its value, and whether it is good, hard, bad or infinite."""
    negative = False
    if at < text.size and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    start = at
    at, whole = _digits(text, at, 0)
    seen, power = at - start, 0
    if at < text.size and text[at] == _DOT:
        start = at + 1
        at, whole = _digits(text, start, whole)
        seen += at - start
        power = start - at
    if seen == 0:
        letter = text[at] | 32 if at < text.size else 0
        return at, 0.0, _INFINITE if letter == 110 or letter == 105 else _BAD  # nan, inf
    if at < text.size and (text[at] | 32) == 101:  # e or E
        at += 1
        down = at < text.size and text[at] == _MINUS
        if at < text.size and (text[at] == _PLUS or text[at] == _MINUS):
            at += 1
        start = at
        at, exponent = _digits(text, start, 0)
        if at == start:
            return at, 0.0, _BAD
        power += -exponent if down else exponent
    if whole == 0:
        return at, 0.0, _GOOD
    if whole > _EXACT or power > 22 or power < -22:
        return at, 1.0, _HARD
    value = whole * _TENS[power] if power >= 0 else whole / _TENS[-power]
    return at, -value if negative else value, _GOOD


@compiled
def fill(
    text: Bytes,
    limit: int,
    labels: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    indices: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    hard: npt.NDArray[np.int64],
) -> tuple[int, int, int, int, int]:
    """Fill the arrays. Returns rows, hard numbers, and (error, line, place) with error 0 when all is well.

    A row of ``hard`` is (line, place in the text, cell), where a label counts as cell ``-1 - row``.
    """
    at, line, row, cell, difficult = 0, 1, 0, 0, 0
    while at < text.size:
        if text[at] == _NEWLINE:
            line += 1
            at += 1
            continue
        if _is_space(text[at]):
            at += 1
            continue
        if text[at] == _HASH:
            while at < text.size and text[at] != _NEWLINE:
                at += 1
            continue
        start = at
        at, value, state = _number(text, at)
        if state == _INFINITE:
            return row, difficult, FINITE, line, start
        if state == _BAD or not _ends_word(text, at):
            return row, difficult, LABEL, line, start
        if state == _HARD:
            hard[difficult, 0], hard[difficult, 1], hard[difficult, 2] = line, start, -1 - row
            difficult += 1
        labels[row] = value
        last = 0
        while True:
            while at < text.size and _is_space(text[at]):
                at += 1
            if _ends_word(text, at):
                break
            start = at
            at, index = _digits(text, at, 0)
            if at == start or at >= text.size or text[at] != _COLON:
                return row, difficult, PAIR, line, start
            if index == 0:
                return row, difficult, ZERO, line, start
            if index > limit:
                return row, difficult, LIMIT, line, start
            if index <= last:
                return row, difficult, ORDER, line, start
            last = index
            place = at + 1
            at, value, state = _number(text, place)
            if state == _INFINITE:
                return row, difficult, FINITE, line, start
            if state == _BAD or not _ends_word(text, at):
                return row, difficult, NUMBER, line, start
            if state == _HARD:
                hard[difficult, 0], hard[difficult, 1], hard[difficult, 2] = line, place, cell
                difficult += 1
            if value != 0.0:
                values[cell] = value
                indices[cell] = index - 1
                cell += 1
        row += 1
        ends[row] = cell
    return row, difficult, 0, line, at
