"""Round sizes fitted to the ``gradients`` and ``rounds`` of a run file.

Any two of gradients, rounds and sizes determine the third. If a run file states gradients and rounds, and a size rule without
its scale or no size rule, this module finds the scale; without a rule, rounds grow linearly. Runs and terms hold only the
fitted form: ``gradients`` and the rule with its scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from crescendo.errors import UsageError
from crescendo.schedules.kinds import SIZES
from crescendo.schedules.sequence import Sizes

Raw = dict[str, Any]
MOST_ROUNDS = 1_000_000  # the search adds up the sizes of all rounds a few dozen times
_LENGTHS = ("gradients", "gradients_per_client")
LENGTHS = (*_LENGTHS, "rounds")  # the keys that sizes are fitted to
_SCALES = {"constant": "size", "power": "scale", "log": "scale"}
_HALVINGS = 60
_DIGITS = 6  # a fitted scale has at most so many significant digits, if they suffice


def fitted(schedule: Mapping[str, Any], clients: int | None) -> Raw:
    """Return the table [schedule] with fitted sizes if it states gradients and rounds; return any other unchanged.

    Raise ValueError, with the line to write, if no sizes fit or if the table states too many or too few of the three.

    >>> fitted({"gradients": 2000, "rounds": 10}, 5)
    {'gradients': 2000, 'sizes': {'kind': 'power', 'scale': 36.3}}
    >>> fitted({"gradients": 90, "rounds": 4, "sizes": {"kind": "constant"}}, 5)["sizes"]
    {'kind': 'list', 'values': [(23, 2), (22, 2)]}
    """
    table, rounds = dict(schedule), schedule.get("rounds")
    lengths = [name for name in _LENGTHS if table.get(name) is not None]
    sizes = table.get("sizes")
    lacking = lacks_scale(sizes)
    if rounds is None or len(lengths) != 1:
        if lacking and (rounds is not None or len(lengths) == 1):
            raise ValueError(_too_little(sizes, lengths))
        return table
    length, total = lengths[0], table[lengths[0]]
    if not (_is_count(rounds) and _is_count(total)):
        return table  # the check of each key reports the mistake
    if not lacking:
        raise ValueError(_too_much(length, total, rounds, sizes))
    del table["rounds"]
    rule = dict(sizes or {"kind": "power"})
    per_client = bool(rule.get("per_client"))
    if per_client != (length == "gradients_per_client"):
        if clients is None:
            raise ValueError("schedule.sizes can be fitted per client only if clients.count is stated; state it")
        total = math.ceil(total / clients) if per_client else total * clients
    table["sizes"] = _solved(rule, total, rounds)
    return table


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def lacks_scale(sizes: object) -> bool:
    """Return whether the scale of a size rule is still to be fitted."""
    if sizes is None:
        return True
    if not isinstance(sizes, Mapping):
        return False
    scale = _scale_key(sizes)
    return scale is not None and scale not in sizes


def _scale_key(sizes: object) -> str | None:
    """Return the key that scales a rule's sizes; None for a rule without one."""
    kind = sizes.get("kind") if isinstance(sizes, Mapping) else None
    return _SCALES.get(kind) if isinstance(kind, str) else None


def _too_little(sizes: Any, lengths: list[str]) -> str:
    what = "schedule.sizes is missing" if sizes is None else f"schedule.sizes has no {_scale_key(sizes)}"
    other = "rounds = 20" if lengths else "gradients = 10000"
    return (
        f"{what}; add {other} under [schedule], and the sizes follow from gradients and rounds, or write them out, such as "
        'sizes = {kind = "power", scale = 50}'
    )


def _too_much(length: str, total: int, rounds: int, sizes: Any) -> str:
    scale = _scale_key(sizes)
    key = "schedule.sizes" if scale is None else f"schedule.sizes.{scale}"
    return (
        f"schedule has {length} = {total}, rounds = {rounds} and sizes, and any two of them determine the third; remove {key} "
        f"(--set {key}=) to have the sizes fitted, or remove rounds or {length}"
    )


def _solved(rule: Raw, total: int, rounds: int) -> Raw:
    if rounds > MOST_ROUNDS:
        raise ValueError(
            f"sizes are fitted to {MOST_ROUNDS:,} rounds at most, not to {rounds:,}; write schedule.sizes out, such as "
            f'{{kind = "constant", size = {max(1, math.ceil(total / rounds))}}}'
        )
    if total < rounds:
        raise ValueError(
            f"{rounds} rounds need at least one gradient each, and there are {total}; write schedule.gradients = {rounds} or "
            f"more, or schedule.rounds = {total} or fewer"
        )
    if rule.get("kind") == "constant" or (rule.get("power") == 0 and not rule.get("offset")):
        low, larger = divmod(total, rounds)
        more = {name: rule[name] for name in ("per_client",) if name in rule}
        if not larger:
            return {"kind": "constant", "size": low, **more}
        return {"kind": "list", "values": [(low + 1, larger), (low, rounds - larger)], **more}
    return {**rule, _SCALES[rule["kind"]]: _scale(_maker(rule), total, rounds)}


def _maker(rule: Raw) -> Callable[[float], Sizes]:
    kind = rule["kind"]
    given = {name: value for name, value in rule.items() if name not in ("kind", "per_client")}

    def make(scale: float) -> Sizes:
        made: Sizes = SIZES[kind].make({**given, _SCALES[kind]: scale})
        return made

    return make


def _scale(make: Callable[[float], Sizes], total: int, rounds: int) -> float:
    """Return the least scale, to few digits, at which ``total`` gradients take exactly ``rounds`` rounds."""

    def reaches(scale: float) -> bool:
        return make(scale).before(rounds) >= total

    try:
        low, high = 0.0, 1.0
        while not reaches(high):
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if not middle > low:
                break
            low, high = (low, middle) if reaches(middle) else (middle, high)
        for scale in (*(_rounded_up(high, digits) for digits in range(3, _DIGITS + 1)), high):
            if reaches(scale) and make(scale).before(rounds - 1) < total:
                return scale
    except (UsageError, TypeError):
        return 1.0  # the rule has another mistake; the check of its keys reports it
    raise ValueError(
        f"no sizes of this rule have {total} gradients in exactly {rounds} rounds; write schedule.gradients = "
        f"{make(high).before(rounds)}, or fewer rounds"
    )


def _rounded_up(value: float, digits: int) -> float:
    """
    >>> _rounded_up(36.363636, 3), _rounded_up(0.00123456, 4)
    (36.4, 0.001235)
    """
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return float(exact.quantize(unit, rounding=ROUND_CEILING))
