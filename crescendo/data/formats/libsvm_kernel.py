"""The compiled loop under `crescendo.data.formats.libsvm`; a separate module, so that numba loads on the first parse.

Decimal to binary: a number is read as a whole number times a power of ten. When the whole number is at most 2**53 and the
power at most 22 in size, both are exact in float64 and one multiplication or division rounds correctly (Clinger 1990).
Otherwise their product is taken in double-double arithmetic (Dekker 1971), good to about 100 bits, and accepted if every
number within its error rounds to the same float64 (Ziv 1991). Any other number is *hard*: its place is noted, and Python's
float() reads it afterwards. So every value equals the result of float().
"""

from fractions import Fraction

import numba
import numpy as np
import numpy.typing as npt

from crescendo.core.arrays import Floats, Ints

_Bytes = npt.NDArray[np.uint8]
compiled = numba.njit(nogil=True, cache=True)

LABEL, PAIR, ZERO, ORDER, LIMIT, NUMBER, FINITE = range(1, 8)  # faults of a word
_GOOD, _HARD, _BAD, _INFINITE = range(4)
_EXACT = 2**53
_WIDEST = 250  # the largest power of ten for double-double arithmetic, far from overflow and underflow
_SATURATED = 10**18
_POWERS = [Fraction(10) ** power for power in range(-_WIDEST, _WIDEST + 1)]
_TENS = np.array([float(power) for power in _POWERS])  # 10**power is at _WIDEST + power, rounded;
_RESTS = np.array([float(power - Fraction(float(power))) for power in _POWERS])  # and this is its rounding error
_NEWLINE, _HASH, _COLON, _DOT, _PLUS, _MINUS = (ord(c) for c in "\n#:.+-")


@compiled
def room(text: _Bytes) -> tuple[int, int]:
    """Return upper bounds on the number of rows and of cells."""
    lines, colons = 1, 0
    for byte in text:
        lines += byte == _NEWLINE
        colons += byte == _COLON
    return lines, colons


@compiled
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 9 or (11 <= byte <= 13)


@compiled
def _ends_word(text: _Bytes, at: int) -> bool:
    return at >= text.size or _is_space(text[at]) or text[at] == _NEWLINE or text[at] == _HASH


@compiled
def _digits(text: _Bytes, at: int, whole: int) -> tuple[int, int]:
    """Continue the whole number ``whole``; one of more than 18 digits becomes ``_SATURATED``."""
    while at < text.size and 48 <= text[at] <= 57:
        whole = 10 * whole + (int(text[at]) - 48) if whole < 10**17 else _SATURATED
        at += 1
    return at, whole


@compiled
def _halves(a: float) -> tuple[float, float]:
    """Split into two numbers of at most 26 bits, whose products are exact (Veltkamp)."""
    wide = 134217729.0 * a  # 2**27 + 1
    high = wide - (wide - a)
    return high, a - high


@compiled
def _product(whole: int, power: int) -> tuple[float, bool]:
    """Return whole * 10**power, and True if it is certainly rounded correctly."""
    ten, rest = _TENS[_WIDEST + power], _RESTS[_WIDEST + power]
    top = float(whole)
    below = float(whole - int(top))
    high = top * ten
    (a, b), (c, d) = _halves(top), _halves(ten)
    low = ((a * c - high) + a * d + b * c) + b * d  # high + low is top * ten, exactly
    low += top * rest + below * ten
    value = high + low
    left = low - (value - high)
    error = 2.0**-96 * value
    return value, value + (left + error) == value and value + (left - error) == value


@compiled
def _number(text: _Bytes, at: int) -> tuple[int, float, int]:
    """Read the number at ``at``; return its end, its value, and its state: good, hard, bad or infinite."""
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
    value = 0.0
    if whole == 0:
        return at, value, _GOOD
    sure = whole <= _EXACT and -22 <= power <= 22
    if sure:
        value = whole * _TENS[_WIDEST + power] if power >= 0 else whole / _TENS[_WIDEST - power]
    elif whole < _SATURATED and -_WIDEST <= power <= _WIDEST:
        value, sure = _product(whole, power)
    if not sure:
        return at, 1.0, _HARD
    return at, -value if negative else value, _GOOD


@compiled
def fill(
    text: _Bytes,
    limit: int,
    leave_out: bool,
    labels: Floats,
    values: Floats,
    indices: npt.NDArray[np.int32],
    ends: Ints,
    hard: Ints,
) -> tuple[int, int, int, int, int]:
    """Fill the arrays; return rows, hard numbers, lines left out, and (error, place) with error 0 if there is none.

    A row of ``hard`` is (place in the text, cell), where a label counts as cell ``-1 - row``. With ``leave_out`` the cells of a
    line that is not a record are discarded and reading continues; otherwise the first such line ends it.
    """
    at, row, cell, difficult, bad = 0, 0, 0, 0, 0
    while at < text.size:
        if text[at] == _NEWLINE or _is_space(text[at]):
            at += 1
            continue
        if text[at] == _HASH:
            while at < text.size and text[at] != _NEWLINE:
                at += 1
            continue
        start, cells, found, last, error = at, cell, difficult, 0, 0
        at, value, state = _number(text, at)
        if state == _INFINITE:
            error = FINITE
        elif state == _BAD or not _ends_word(text, at):
            error = LABEL
        elif state == _HARD:
            hard[found, 0], hard[found, 1] = start, -1 - row
            found += 1
        labels[row] = value
        while error == 0:
            while at < text.size and _is_space(text[at]):
                at += 1
            if _ends_word(text, at):
                break
            start = at
            at, index = _digits(text, at, 0)
            if at == start or at >= text.size or text[at] != _COLON:
                error = PAIR
            elif index == 0:
                error = ZERO
            elif index > limit:
                error = LIMIT
            elif index <= last:
                error = ORDER
            else:
                last, place = index, at + 1
                at, value, state = _number(text, place)
                if state == _INFINITE:
                    error = FINITE
                elif state == _BAD or not _ends_word(text, at):
                    error = NUMBER
                elif state == _HARD:
                    hard[found, 0], hard[found, 1] = place, cells
                    found += 1
                if value != 0.0:
                    values[cells] = value
                    indices[cells] = index - 1
                    cells += 1
        if error == 0:
            row, cell, difficult = row + 1, cells, found
            ends[row] = cell
        elif leave_out:
            bad += 1
            while at < text.size and text[at] != _NEWLINE:
                at += 1
        else:
            return row, difficult, bad, error, start
    return row, difficult, bad, 0, at
