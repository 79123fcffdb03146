"""Digits that are not amounts: codes such as a ZIP, and dates written as whole numbers such as 20240131."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.tables.cells import is_missing, numbers

_NAME = re.compile(
    r"(zip|zip_?code|postal_?code|post_?code|plz|postleitzahl|pin_?code|code_?postal|phone|phone_?(no|nr|number)|tel|telephone"
    r"|mobile|fax|isbn|ean|gtin|sku|iban|fips|icd\d*|.*_code|code)",
    re.IGNORECASE,
)
_HEXADECIMAL = re.compile(r"[0-9]+e?[0-9]+").fullmatch
HUGE = 1e150  # the square of a larger number overflows
_FEWEST = 8  # cells from which on digits that all read as months are no coincidence
_YEARS = (1900, 2100)


def is_code(name: str, cells: Array, values: Floats) -> bool:
    """Return True if whole numbers are codes, judged by the column's name or by leading zeros.

    >>> is_code("zip code", np.array([10001.0, 2139.0]), np.array([10001.0, 2139.0]))
    True
    >>> texts = np.array(["007", "120", "", "012"], dtype=object)
    >>> is_code("a", texts, np.array([7, 120, np.nan, 12])), is_code("b", texts[:2], np.array([7, 120.0]))
    (True, False)
    """
    there = values[~np.isnan(values)]
    if not len(there) or not np.isfinite(there).all() or (there != np.rint(there)).any() or (there < 0).any():
        return False
    if is_code_name(name):
        return True
    texts = [] if cells.dtype != object else [cell for cell in cells.tolist() if not is_missing(cell)]
    return _has_leading_zeros(texts) or _are_hexadecimal(texts)


def is_code_name(name: str) -> bool:
    """Return True if a column's name is usual for codes."""
    return _NAME.fullmatch(re.sub(r"[ .-]+", "_", name.strip())) is not None


def _are_hexadecimal(texts: list[str]) -> bool:
    """Return True for codes of one length such as 00e1 and 10e3, which also read as 0 and 10000.

    >>> _are_hexadecimal(["00e1", "10e3", "0042"]), _are_hexadecimal(["1e1", "2e5"]), _are_hexadecimal(["0042", "0107"])
    (True, False, False)
    """
    padded = any(text.startswith("0") for text in texts)
    return padded and len(set(map(len, texts))) == 1 and "e" in "".join(texts) and all(map(_HEXADECIMAL, texts))


def _has_leading_zeros(texts: list[str]) -> bool:
    padded = [text for text in texts if len(text) > 1 and text.startswith("0")]
    return (
        len(padded) > 1
        and all(text.isascii() and text.isdecimal() for text in texts)
        and len(set(map(len, padded))) == 1
    )


def are_whole_dates(values: Floats) -> bool:
    """Return True if all numbers read as dates: 20240131, or 202401 if there are enough of them.

    >>> are_whole_dates(np.array([20240131.0, 20231224, np.nan, 20250701])), are_whole_dates(np.array([20240131.0, 20241331, 7]))
    (True, False)
    """
    there = values[~np.isnan(values)]
    if len(there) < 3 or not np.isfinite(there).all() or (there != np.rint(there)).any():
        return False
    if len(np.unique(there)) < 2 or there.min() < 0:
        return False
    if there.min() >= 10_000_000 and there.max() < 100_000_000:
        years, months, days = there // 10_000, there // 100 % 100, there % 100
        return _between(years, *_YEARS) and _between(months, 1, 12) and _between(days, 1, 31)
    if there.min() >= 100_000 and there.max() < 1_000_000 and len(np.unique(there)) >= _FEWEST:
        return _between(there // 100, *_YEARS) and _between(there % 100, 1, 12)
    return False


def hold_no_amounts(columns: Mapping[str, Array]) -> bool:
    """Return True if one of some columns of numbers holds codes, dates, or numbers too large to be squared."""
    each = ((name, cells, numbers(cells)) for name, cells in columns.items())
    return any(
        is_code(name, cells, values) or are_whole_dates(values) or _is_huge(values) for name, cells, values in each
    )


def _is_huge(values: Floats) -> bool:
    return bool(np.isfinite(values).all() and np.max(np.abs(values), initial=0.0) > HUGE)


def _between(values: Floats, low: int, high: int) -> bool:
    return bool((low <= values).all() and (values <= high).all())
