"""The grid of a sweep: every combination of the values listed by ``--over`` options.

An option is ``KEY=VALUES``: a dotted key of the run file, then values separated by commas. A value is TOML or a bare
word, as for ``--set``, or a range ``A..B`` of whole numbers, both ends included. Commas within quotes, brackets and
braces are part of a value.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crescendo.config.loading import toml_value
from crescendo.errors import ConfigError, UsageError

MOST_POINTS = 10_000
_FORM = "write, for example, --over clients.count=2,5,10 or --over run.seed=0..4"
_RANGE = re.compile(r"([+-]?\d+)\.\.([+-]?\d+)")
_CLOSES = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Axis:
    """A key of the run file and its values, in the form that ``--set`` takes.

    >>> Axis.of("run.seed=0..2, 7")
    Axis(key='run.seed', values=('0', '1', '2', '7'))
    >>> Axis.of("schedule.wait={rounds = 0}, {tau = 'theorem', d = 1}").values
    ('{rounds = 0}', "{tau = 'theorem', d = 1}")
    """

    key: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, option: str) -> Axis:
        key, equals, text = option.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise ConfigError(f"--over {option} is not of the form a.b=values; {_FORM}")
        if not text.strip():
            raise ConfigError(f"--over {option} has no values; {_FORM}")
        values = tuple(value for part in _parts(text, option) for value in _spelled_out(part, option))
        twice = [value for value, times in Counter(values).items() if times > 1]
        if twice:
            raise ConfigError(f"--over {option} has {twice[0]} twice; name each value once")
        for value in values:
            toml_value(value, f"--over {option}")
        return cls(".".join(names), values)


def axes_of(options: Sequence[str]) -> list[Axis]:
    """Parse the axes of a grid; raise ConfigError for no axes, for a repeated key and for too many points."""
    if isinstance(options, str):  # a string is a sequence of strings too
        raise UsageError(f'over must be a list, here ["{options}"], not a string')
    check_texts(() if options is None else options, 'over must be a list of strings, such as ["clients.count=2,5"]')
    if not options:
        raise ConfigError(f"a sweep needs a key to vary; {_FORM}")
    axes = [Axis.of(option) for option in options]
    twice = [key for key, times in Counter(axis.key for axis in axes).items() if times > 1]
    if twice:
        raise ConfigError(f"--over {twice[0]} is given twice; put all its values into one option")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_POINTS:
        raise ConfigError(
            f"this grid has {count:,} points, but a sweep has at most {MOST_POINTS:,}; leave some values out"
        )
    return axes


def check_texts(found: object, due: str) -> None:
    """Raise UsageError, stating what is ``due``, for anything but a list of strings; the error shows none of its values."""
    if not isinstance(found, list | tuple):
        raise UsageError(f"{due}, not of type {type(found).__name__}")
    strange = [one for one in found if not isinstance(one, str)]
    if strange:
        raise UsageError(f"{due}, but it holds a value of type {type(strange[0]).__name__}")


def check_apart(axes: Sequence[Axis], overrides: Sequence[str]) -> None:
    """Refuse an override of a key that an axis replaces, or of a key within it.

    >>> check_apart([Axis.of("clients.count=2,5")], ["clients.split=label"])
    """
    for one in overrides:
        key = ".".join(name.strip() for name in str(one).partition("=")[0].split("."))
        for axis in axes:
            if f"{key}.".startswith(f"{axis.key}."):
                raise ConfigError(f"--over {axis.key} replaces --set {one}; leave one of the two out")


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """Yield every combination of values, one per axis; the last axis varies fastest.

    >>> list(combinations([Axis("a", ("1", "2")), Axis("b", ("x", "y"))]))
    [('1', 'x'), ('1', 'y'), ('2', 'x'), ('2', 'y')]
    """
    return itertools.product(*(axis.values for axis in axes))


def overrides_of(axes: Sequence[Axis], values: Sequence[str]) -> list[str]:
    """Return the point as ``--set`` options."""
    return [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True)]


def _parts(text: str, option: str) -> list[str]:
    """Split at the commas outside quotes, brackets and braces."""
    parts, start, open_, quote, at = [], 0, [""], "", 0
    while at < len(text):
        letter = text[at]
        if quote:
            at += letter == "\\" and quote == '"'  # skip the escaped letter; TOML escapes in double quotes only
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _CLOSES:
            open_.append(_CLOSES[letter])
        elif letter in _CLOSES.values():
            if letter != open_.pop():
                raise ConfigError(
                    f"--over {option} closes a bracket that is not open; quote the whole option in the shell"
                )
        elif letter == "," and len(open_) == 1:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    if quote or len(open_) > 1:
        raise ConfigError(f"--over {option} leaves a quote or bracket open; quote the whole option in the shell")
    parts = [part.strip() for part in (*parts, text[start:])]
    if not all(parts):
        raise ConfigError(f"--over {option} has an empty value between its commas; leave that comma out")
    return parts


def _spelled_out(part: str, option: str) -> list[str]:
    """Return the numbers of a range; any other value unchanged.

    >>> _spelled_out("-1..1", ""), _spelled_out("../w8a", "")
    (['-1', '0', '1'], ['../w8a'])
    """
    found = _RANGE.fullmatch(part)
    if found is None:
        if _is_range_of_fractions(part):
            raise ConfigError(
                f"--over {option} has the range {part}; a range takes whole numbers, so list the values instead"
            )
        return [part]
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ConfigError(f"--over {option} has the range {part}, which runs backwards; write {last}..{first}")
    if last - first >= MOST_POINTS:
        raise ConfigError(
            f"--over {option} has a range of {last - first + 1:,} values; a sweep has at most {MOST_POINTS:,} points"
        )
    return [str(value) for value in range(first, last + 1)]


def _is_range_of_fractions(part: str) -> bool:
    low, dots, high = part.partition("..")
    try:
        return bool(dots) and math.isfinite(float(low)) and math.isfinite(float(high))
    except ValueError:
        return False
