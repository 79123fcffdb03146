"""Delays as lines of a run file."""

from typing import Any

from crescendo.schedules.delay import ConstantDelay, Delay, StronglyConvexDelay
from crescendo.schedules.kinds import DELAYS, GAMMAS
from crescendo.schedules.parameters import Declared


def wait_line(delay: Delay) -> str:
    """Return the key and value of a delay; a delay that no run file can state is shown as Python code.

    >>> from crescendo.schedules.delay import PowerDelay
    >>> wait_line(ConstantDelay(1349.001)), wait_line(PowerDelay(1, 0.5, 20))
    ('schedule.wait.tau = 1349.001', 'schedule.wait.tau = {kind = "power", scale = 1, power = 0.5, offset = 20, shift
    = 0}')
    >>> wait_line(StronglyConvexDelay(6317, 25))
    'schedule.wait = {tau = "theorem", m = 6317, m1 = 25}'
    """
    if isinstance(delay, ConstantDelay):
        return f"schedule.wait.tau = {_value(delay.tau)}"
    if isinstance(delay, StronglyConvexDelay):
        return f'schedule.wait = {{tau = "theorem", m = {_value(delay.m)}, m1 = {_value(delay.m1)}}}'
    table = _table(delay)
    return f"tau = {delay!r}" if table is None else f"schedule.wait.tau = {table}"


def _table(rule: Declared) -> str | None:
    for kind in (*DELAYS, *GAMMAS):
        if kind.rule is type(rule):
            keys = (f"{one.name} = {_value(getattr(rule, one.name))}" for one in kind.keys)
            return "{" + ", ".join([f'kind = "{kind.name}"', *keys]) + "}"
    return None


def _value(value: Any) -> str:
    if isinstance(value, Declared):
        return _table(value) or repr(value)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(value)
