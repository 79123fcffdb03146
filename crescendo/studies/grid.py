"""The grid of a sweep: every combination of the values that ``--over`` options name.

An option is ``KEY=VALUES``: the dotted key of a run file, then values with commas between them. A value is what ``--set`` takes,
TOML or a bare word, or a range ``A..B`` of whole numbers, both ends included. Commas within quotes, brackets and braces are part
of a value.
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
_FORM = "write for example --over clients.count=2,5,10 or --over run.seed=0..4"
_RANGE = re.compile(r"([+-]?\d+)\.\.([+-]?\d+)")
_CLOSES = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class Axis:
    """A key of the run file and the values it takes, as ``--set`` would have them.

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
    """The axes of a grid; ConfigError for none, for a key that is there twice, and for too many points."""
    if isinstance(options, str):  # a sequence of texts too, of a letter each
        raise UsageError(f'over is a list, here ["{options}"], not a text')
    check_texts(() if options is None else options, 'over is a list of texts, such as ["clients.count=2,5"]')
    if not options:
        raise ConfigError(f"a sweep needs a key to vary; {_FORM}")
    axes = [Axis.of(option) for option in options]
    twice = [key for key, times in Counter(axis.key for axis in axes).items() if times > 1]
    if twice:
        raise ConfigError(f"--over {twice[0]} is there twice; put all its values into one option")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_POINTS:
        raise ConfigError(
            f"this grid has {count:,} points, and a sweep takes {MOST_POINTS:,} at most; leave some values out"
        )
    return axes


def check_texts(found: object, due: str) -> None:
    """UsageError that says what is ``due`` for anything but a list of texts; of what it holds nothing is shown."""
    if not isinstance(found, list | tuple):
        raise UsageError(f"{due}, not of type {type(found).__name__}")
    strange = [one for one in found if not isinstance(one, str)]
    if strange:
        raise UsageError(f"{due}, and this one has something of type {type(strange[0]).__name__} in it")


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """A value of every axis; the last axis turns fastest.

    >>> list(combinations([Axis("a", ("1", "2")), Axis("b", ("x", "y"))]))
    [('1', 'x'), ('1', 'y'), ('2', 'x'), ('2', 'y')]
    """
    return itertools.product(*(axis.values for axis in axes))


def overrides_of(axes: Sequence[Axis], values: Sequence[str]) -> list[str]:
    """The point as ``--set`` options."""
    return [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True)]


def _parts(text: str, option: str) -> list[str]:
    """What stands between the commas that are in no quotes, brackets or braces."""
    parts, start, open_, quote, at = [], 0, [""], "", 0
    while at < len(text):
        letter = text[at]
        if quote:
            at += letter == "\\" and quote == '"'  # what follows is escaped; TOML knows that in double quotes only
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
    """The numbers of a range; any other value as it is.

    >>> _spelled_out("-1..1", ""), _spelled_out("../w8a", "")
    (['-1', '0', '1'], ['../w8a'])
    """
    found = _RANGE.fullmatch(part)
    if found is None:
        if _is_range_of_fractions(part):
            raise ConfigError(
                f"--over {option} has the range {part}; a range has whole numbers, so list the values instead"
            )
        return [part]
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ConfigError(f"--over {option} has the range {part}, which runs backwards; write {last}..{first}")
    if last - first >= MOST_POINTS:
        raise ConfigError(
            f"--over {option} has a range of {last - first + 1:,} values; {MOST_POINTS:,} points at most are a sweep"
        )
    return [str(value) for value in range(first, last + 1)]


def _is_range_of_fractions(part: str) -> bool:
    low, dots, high = part.partition("..")
    try:
        return bool(dots) and math.isfinite(float(low)) and math.isfinite(float(high))
    except ValueError:
        return False
