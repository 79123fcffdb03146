"""Parameters of a schedule, each declared once as ``Annotated[type, Range, "description"]`` and checked on
construction.

The declaration also gives the keys of a run file, their limits, the wording of errors and the lines of the reference.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from crescendo.errors import UsageError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

LIMIT = 2**62  # no count may exceed this, so that int64 sums are exact


def whole(name: str, value: Any, least: int = 0) -> int:
    """Return ``value`` as an int from ``least`` to 2**62. A float or a bool is probably a mistake, so it is refused.

    >>> whole("d", np.int64(3))
    3
    >>> whole("d", 1.0)
    Traceback (most recent call last):
    crescendo_dp.errors.UsageError: d must be a whole number, got 1.0
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, got {value!r}") from None
    if isinstance(value, bool | np.bool):
        raise UsageError(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise UsageError(f"{name} must be {least} or more, got {number}")
    if number > LIMIT:
        raise UsageError(f"{name} must be 2**62 or less, got {number:.3g}")
    return number


def real(
    name: str, value: Any, *, least: float | None = None, above: float | None = None, most: float | None = None
) -> float | int:
    """Return ``value`` as a finite number with ``least <= value <= most`` and ``value > above``; an int stays an int.

    >>> real("eta", 0.5, above=0), real("scale", np.float32(2))
    (0.5, 2.0)
    >>> real("eta", float("nan"), above=0)
    Traceback (most recent call last):
    crescendo_dp.errors.UsageError: eta must be a finite number, got nan
    """
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number, got {value!r}")
    number = value.item() if isinstance(value, np.generic) else value
    try:
        finite = math.isfinite(number)
    except OverflowError:  # an int too large for a float
        finite = False
    if not finite:
        raise UsageError(f"{name} must be a finite number, got {number!r}")
    if above is not None and number <= above:
        raise UsageError(f"{name} must be more than {above:g}, got {number!r}")
    if least is not None and number < least:
        raise UsageError(f"{name} must be {least:g} or more, got {number!r}")
    if most is not None and number > most:
        raise UsageError(f"{name} must be {most:g} or less, got {number!r}")
    return number


def kind(name: str, value: Any, wanted: type) -> None:
    """Refuse a ``value`` that is not a ``wanted``."""
    if not isinstance(value, wanted):
        raise UsageError(f"{name} must be a {wanted.__name__}, got {value!r}")


def settle(owner: object, **values: object) -> None:
    """Store checked values in a frozen dataclass, so that numpy scalars print and compare as plain numbers."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


@dataclass(frozen=True)
class Range:
    """The limits of a parameter's number, or of every number in its list; ``words`` describe limits of another form.

    >>> Range(least=0, most=1).right(float), Range(least=1).right(int), Range(above=0).right(float)
    ('a number from 0 to 1', 'a whole number of at least 1', 'a number above 0')
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    words: str | None = None

    def right(self, hint: Any) -> str:
        """Return the description of a valid value that completes "must be .."."""
        if self.words is not None:
            return self.words
        if hint is bool:
            return "true or false"
        if get_origin(hint) is Literal:
            return " or ".join(f'"{word}"' for word in get_args(hint))
        noun = "a whole number" if hint is int else "a number"
        if self.least is not None and self.most is not None:
            return f"{noun} from {self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"{noun} of at least {self.least:g}"
        return noun if self.above is None else f"{noun} above {self.above:g}"

    def check(self, name: str, hint: Any, value: Any) -> Any:
        """Return ``value`` as a plain ``hint``, or raise UsageError; lists and tables check themselves and are unchanged."""
        if hint is int:
            return whole(name, value, least=-LIMIT if self.least is None else int(self.least))
        if hint is float:
            return real(name, value, least=self.least, above=self.above, most=self.most)
        if hint is bool and not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, got {value!r}")
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise UsageError(f"{name} must be {self.right(hint)}, got {value!r}")
        if isinstance(hint, type) and hint is not bool:
            kind(name, value, hint)
        return value


COUNT, WHOLE, NOT_NEGATIVE = Range(least=1), Range(least=0), Range(least=0)
POSITIVE, UNIT, NUMBER = Range(above=0), Range(least=0, most=1), Range()


@dataclass(frozen=True)
class Parameter:
    """One field of a rule. Without ``says`` it is not a key of the run file; without a default it is required."""

    name: str
    hint: Any
    range: Range
    says: str | None
    default: Any = dataclasses.MISSING


def _parameters(rule: type) -> tuple[Parameter, ...]:
    """Return the declared parameters of a rule, in order."""
    hints, found = get_type_hints(rule, include_extras=True), []
    for field in dataclasses.fields(rule):
        hint, *notes = (
            get_args(hints[field.name]) if get_origin(hints[field.name]) is Annotated else [hints[field.name]]
        )
        limits = next((note for note in notes if isinstance(note, Range)), NUMBER)
        says = next((note for note in notes if isinstance(note, str)), None)
        found.append(Parameter(field.name, hint, limits, says, field.default))
    return tuple(found)


parameters: Callable[[Any], tuple[Parameter, ...]] = functools.cache(_parameters)


class Declared:
    """A rule that checks its parameters on construction: each by its declaration, then together by ``check``."""

    def __post_init__(self) -> None:
        given = parameters(type(self))
        settle(self, **{one.name: one.range.check(one.name, one.hint, getattr(self, one.name)) for one in given})
        self.check()

    def check(self) -> None:
        """Refuse parameters that are invalid in combination."""
