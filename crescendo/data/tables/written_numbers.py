"""Numbers as people write them: money, percents, amounts with a unit, marks between thousands, decimal commas.

A schema declares how a column is written, and each cell is then read by itself. A cell in another currency or unit, or written in
any other way, is not a number: the reader never guesses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from crescendo.core.arrays import Array, Floats
from crescendo.data.tables.cells import numbers

Kind: TypeAlias = Literal["number", "money", "percent", "thousands"]
KINDS: tuple[Kind, ...] = ("number", "money", "percent", "thousands")
LONGEST_UNIT = 20  # characters
_LONGEST = 80  # characters of a cell that is a number
_SAME = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-", "\u2019": "'"})
_PARTS = re.compile(
    r"(?P<before>[^\d.,()+-]*?(?:rs\.|fr\.|kr\.)?)\s*(?P<sign>[+-]?)\s*(?P<beside>[^\d.,()+-]*?)\s*"
    r"(?P<body>[0-9](?:[0-9.,' ]*[0-9])?[.,]?|[.,][0-9]+)(?P<exponent>[eE][+-]?[0-9]+)?\s*(?P<after>[^\d()]*)",
    re.IGNORECASE,
)
_PERCENT = frozenset(("%", "percent", "pct", "per cent", "prozent", "p.c."))
_CODES = (
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW MAD MXN MYR NGN NOK NZD PEN "
    "PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR"
)
_SIGNS = (
    "$ USD, us$ USD, dollar USD, dollars USD, c$ CAD, a$ AUD, r$ BRL, € EUR, euro EUR, euros EUR, £ GBP, ¥ JPY, ₹ INR, rs INR, "
    "rs. INR, fr. CHF, sfr CHF, sfr. CHF, kr kr, kr. kr, zł PLN, zl PLN, kč CZK, ft HUF, lei RON, ₽ RUB, ₩ KRW, ₺ TRY, ₪ ILS, "
    "฿ THB, ₫ VND"
)
_CURRENCIES = {code.casefold(): code for code in _CODES.split()} | dict(sign.split(" ") for sign in _SIGNS.split(", "))
_GROUPED = r"[1-9][0-9]{{0,2}}([{group}' ])(?:[0-9]{{2,3}}\1)*[0-9]{{3}}(?:{point}[0-9]*)?"
_PLAIN = r"[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+"
_BODIES = {
    point: (
        re.compile(_PLAIN.format(point=re.escape(point))),
        re.compile(_GROUPED.format(point=re.escape(point), group=re.escape(group))),
    )
    for point, group in ((".", ","), (",", "."))
}
_THREE = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")


@dataclass(frozen=True)
class Cell:
    """The parts of a cell: the digits with their marks, and the text before or after them."""

    body: str
    beside: str
    negative: bool
    exponent: str = ""
    before: bool = False  # the text comes before the digits

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Split a cell into its parts; return None if it has no digits, or words on both sides of them.

        >>> Cell.of("($1,234.50)")
        Cell(body='1,234.50', beside='$', negative=True, exponent='', before=True)
        >>> Cell.of("5 kg").beside, Cell.of("long"), Cell.of("5 of 7")
        ('kg', None, None)
        """
        if len(text) > _LONGEST:
            return None
        text = text.translate(_SAME).strip()
        in_brackets = text.startswith("(") and text.endswith(")")
        found = _PARTS.fullmatch(text[1:-1].strip() if in_brackets else text)
        if found is None:
            return None
        after, signs = found["after"].strip(), found["sign"]
        if after in ("-", "--"):  # 1,234- of an old accounting program; "5,-" means no cents
            after, signs = "", signs if found["body"][-1] in ".," else signs + "-"
        beside = [words for words in (found["before"].strip(), found["beside"].strip(), after) if words]
        if len(beside) > 1 or len(signs) > 1 or (in_brackets and signs):
            return None
        words = beside[0] if beside else ""
        negative, exponent = in_brackets or signs == "-", found["exponent"] or ""
        return cls(found["body"], words, negative, exponent, before=bool(words) and not after)

    @property
    def currency(self) -> str | None:
        return _CURRENCIES.get(self.beside.casefold())

    @property
    def percent(self) -> bool:
        return self.beside.casefold() in _PERCENT

    def value(self, decimal: str | None, comma: bool) -> float:
        """Return the number, nan if the marks are inconsistent. Without a ``decimal`` the cell decides, then ``comma``."""
        point = decimal or decimal_of(self.body) or ("," if comma else ".")
        plain, grouped = _BODIES[point]
        if plain.fullmatch(self.body) is None and grouped.fullmatch(self.body) is None:
            return math.nan
        digits = "".join(
            "." if letter == point else letter for letter in self.body if letter.isdigit() or letter == point
        )
        found = float(digits + self.exponent)
        return -found if self.negative else found


def decimal_of(body: str) -> str | None:
    """Return the decimal mark that the digits show; None without a mark, and for 1,234 and 1.234, which are ambiguous.

    >>> [decimal_of(body) for body in ("1.234,5", "1,234.5", "1,5", "1.5", "1,234,567", "1,234", "1.234", "12")]
    [',', '.', ',', '.', '.', None, None, None]
    """
    marks = {mark: body.count(mark) for mark in ".," if mark in body}
    if len(marks) == 2:
        return max(marks, key=body.rfind)
    for mark, times in marks.items():
        if times > 1:
            return "," if mark == "." else "."
        return None if _THREE.fullmatch(body) else mark
    return None


def currency(text: str) -> str | None:
    """Return the code of a currency from its usual spellings; None if it is unknown.

    >>> currency("€"), currency("eur"), currency("kg")
    ('EUR', 'EUR', None)
    """
    return _CURRENCIES.get(text.strip().casefold())


def same_unit(one: str, other: str) -> bool:
    """Return True if two spellings mean one unit: case does not matter, except for the m and M of mW and MW.

    >>> same_unit("Kg", "kg"), same_unit("mW", "MW")
    (True, False)
    """
    return one.casefold() == other.casefold() and not (one[:1] != other[:1] and one[:1] in "mM")


@dataclass(frozen=True)
class Written:
    """The way a column's numbers are written. ``unit`` may accompany them, for money a currency; ``decimal`` is "." or ",".

    >>> Written("money", "EUR").numbers(np.array(["1.234,56 €", "EUR 7", "5 $", "8"], dtype=object)).tolist()
    [1234.56, 7.0, nan, 8.0]
    >>> Written(unit="kg").number("5 kg"), Written("percent").number("12,5 %"), Written("thousands").number("12,34,567")
    (5.0, 12.5, 1234567.0)
    """

    kind: Kind = "number"
    unit: str | None = None
    decimal: str | None = None

    def numbers(self, cells: Array, comma: bool = False) -> Floats:
        """Return each cell as a number, nan if it is missing or written in another way.

        ``comma`` is True for a file with decimal commas; it decides the meaning of 1,234 and 1.234 if ``decimal`` is None.
        """
        if self == PLAIN or cells.dtype != object:
            return numbers(cells)
        known = {cell: self.number(cell, comma) for cell in set(cells.tolist())}
        return np.fromiter((known[cell] for cell in cells.tolist()), np.float64, len(cells))

    def number(self, text: str, comma: bool = False) -> float:
        """Return one cell as a number."""
        cell = Cell.of(text)
        if cell is None or not self._fits(cell):
            return math.nan
        grouped = self.kind in ("money", "thousands")
        return cell.value(self.decimal, comma and (grouped or "," in cell.body))

    def _fits(self, cell: Cell) -> bool:
        if not cell.beside:
            return True
        if self.kind == "money":
            return cell.currency is not None and (
                self.unit is None or cell.currency == (currency(self.unit) or self.unit)
            )
        if self.kind == "percent":
            return cell.percent
        return self.unit is not None and not cell.before and same_unit(cell.beside, self.unit)

    def text(self, value: float) -> str:
        """Write a number in the column's way, without its unit."""
        return repr(value).replace(".", self.decimal) if self.decimal else repr(value)

    def plain(self) -> dict[str, Any]:
        """Return the words of a schema for this way of writing; {} for plain numbers."""
        words: Mapping[str, Any] = {"kind": self.kind, "unit": self.unit, "decimal": self.decimal}
        return {key: value for key, value in words.items() if value not in (None, "number")}

    def __str__(self) -> str:
        if self.unit is not None:
            return f"{'money' if self.kind == 'money' else 'amounts'} in {self.unit}"
        more = {"percent": "percents", "thousands": "numbers with marks between thousands", "money": "money"}
        return more.get(self.kind, "numbers with decimal commas" if self.decimal == "," else "numbers")


PLAIN = Written()
