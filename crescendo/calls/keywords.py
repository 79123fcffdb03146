"""Keywords of a call: each sets one key of the run file, so that a script can grow into a file.

>>> put({"schedule": {"rounds": 5}}, {"clients": 3, "gradients": 900, "wait": 0})
{'schedule': {'gradients': 900, 'wait': {'rounds': 0}}, 'clients': {'count': 3}}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from crescendo.calls.foreign_words import in_a_sentence, no_keyword, remedy
from crescendo.config.draft_marks import declare
from crescendo.errors import UsageError

Raw = dict[str, Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])
_LENGTHS = ("gradients", "gradients_per_client", "rounds")


class RunKeys(TypedDict, total=False):
    """The common keys of a run; `PATHS` lists their places in a run file, and docs/run_file.md their values."""

    clients: int | Sequence[Any] | str
    split: str
    alpha: float
    weights: str | Sequence[float]
    combine: Literal["sum", "mean"]
    optimizer: str
    l2: float | str
    label_range: tuple[float, float]
    epochs: float
    gradients: int
    rounds: int
    sizes: Mapping[str, Any]
    steps: str | Mapping[str, Any]
    wait: int | Mapping[str, Any]
    timing: str | Mapping[str, Any]
    mechanism: str
    epsilon: float
    delta: float
    sigma: float | Sequence[Sequence[float]]
    clip: float | Sequence[Sequence[float]]
    norm_bound: float
    records: int | Sequence[int] | Mapping[str, int]
    classes: Sequence[int | float | str]
    test: float | tuple[Any, Any]
    schema: Mapping[str, Any] | str
    drop: Sequence[str]
    categories: Sequence[str]
    missing: Sequence[float] | Mapping[str, Any]
    scale: bool
    seed: int


PATHS = {
    "clients": "clients.count",
    "split": "clients.split",
    "alpha": "clients.alpha",
    "weights": "clients.weights",
    "combine": "clients.combine",
    "optimizer": "objective.options",  # of a network, as its optimiser
    "l2": "objective.l2",
    "label_range": "objective.label_range",
    "gradients": "schedule.gradients",
    "rounds": "schedule.rounds",
    "epochs": "schedule.gradients",  # in passes over the records in memory
    "sizes": "schedule.sizes",
    "steps": "schedule.steps",
    "wait": "schedule.wait",
    "timing": "timing",
    "mechanism": "privacy.mechanism",
    "epsilon": "privacy.epsilon",
    "delta": "privacy.delta",
    "sigma": "privacy.sigma",
    "clip": "privacy.clip",
    "norm_bound": "privacy.norm_bound",
    "records": "privacy.records",
    "classes": "data.classes",
    "test": "data.test",
    "schema": "data.schema",
    "drop": "data.drop",
    "categories": "data.categories",
    "missing": "data.missing",
    "scale": "data.scale",
    "seed": "run.seed",
}
_SHORT = {"wait": ("rounds", int), "timing": ("preset", str)}  # a value that stands for a table with this key


def known(keys: Mapping[str, Any], call: str) -> Raw:
    """Return the keywords with a value, as plain data; refuse an unknown keyword."""
    for name in keys:
        if name not in PATHS:
            raise no_keyword(call, name, keys[name], PATHS)
    if isinstance(keys.get("steps"), int | float) and not isinstance(keys["steps"], bool):
        raise UsageError(
            f"steps={keys['steps']:g} does not say how steps go on; {remedy(call, 'lr', float(keys['steps']))}"
        )
    if isinstance(keys.get("steps"), str) and keys["steps"] != "auto":
        raise UsageError(
            f'steps="{keys["steps"]:.40}" lacks its numbers; write steps="auto", which chooses them, or a table such as '
            'steps={"kind": "constant", "eta": 0.1}'
        )
    return {name: _kept(name, value) for name, value in keys.items() if value is not None}


def _kept(name: str, value: Any) -> Any:
    """Return records and client ids unchanged, since Python lists would lose their types, and any other value as plain data."""
    if name in ("test", "clients"):
        return value.item() if getattr(value, "shape", None) == () else value
    found = plain(value)
    if name == "classes" and isinstance(found, list):  # truth values are labels 0 and 1, in records too
        return [int(one) if isinstance(one, bool) else one for one in found]
    return found


def plain(value: Any) -> Any:
    """Convert numpy numbers and lists to Python's; return any other value unchanged.

    >>> import numpy as np
    >>> plain(np.int64(3)), plain(np.array([1.0, 2.0])), plain((np.float64(1), "a"))
    (3, [1.0, 2.0], [1.0, 'a'])
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def put(raw: Mapping[str, Any], keys: Mapping[str, Any]) -> Raw:
    """Return a run file's tables with the keywords put over them; one length replaces another."""
    found: Raw = {name: dict(table) if isinstance(table, Mapping) else table for name, table in raw.items()}
    if any(name in keys for name in _LENGTHS) and isinstance(found.get("schedule"), dict):
        for name in _LENGTHS:
            found["schedule"].pop(name, None)
    for name, value in keys.items():
        if name in _SHORT and isinstance(value, _SHORT[name][1]):
            value = {_SHORT[name][0]: value}
        declare(found, PATHS[name])
        section, _, key = PATHS[name].partition(".")
        if not key:
            found[section] = value
        elif isinstance(table := found.setdefault(section, {}), dict):
            table[key] = {**table.get(key, {}), **value} if name == "optimizer" else value
    return found


def spelled_out(function: _Function) -> _Function:
    """Let ``help`` and notebooks show every keyword instead of ``**keys``; refuse wrong arguments in a sentence."""
    function = in_a_sentence(function.__name__, PATHS)(function)
    shown = inspect.signature(function)
    fixed = [one for one in shown.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    word = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, word, default=None, annotation=getattr(of, "__forward_arg__", of))
        for name, of in RunKeys.__annotations__.items()
    ]
    function.__signature__ = shown.replace(parameters=[*fixed, *more])  # type: ignore[attr-defined]
    return function
