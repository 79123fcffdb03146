"""Texts that a server might send as terms: sound ones, and sound ones that were changed by somebody who means harm.

Every number is an adversary's, at every size that a float or a whole number can have. Most texts stay canonical JSON of the right
shape, since those go furthest; some do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from tests.conformance.cases import PRIVATE, case

Raw = Any
Path = tuple[Any, ...]

CLASSES = {"classes": [-1, 1]}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "by power": {"schedule": {"sizes": {"kind": "power", "scale": 5.5, "power": 0.5, "shift": 2.0, "offset": 1.0}}},
    "by log": {"schedule": {"sizes": {"kind": "log", "scale": 9.0}}},
    "by theorem": {
        "schedule": {
            "sizes": {"kind": "theorem", "d": 1, "m": 4000},
            "steps": {"kind": "theorem", "mu": 0.5, "m1": 720.0, "m": 4000},
            "wait": {"tau": {"kind": "theorem"}, "d": 1, "m": 4000, "m1": 720.0},
        }
    },
    "by recipe": {
        "schedule": {
            "sizes": {"kind": "recipe", "g": 2.0, "gamma": {"kind": "log", "scale": 4.0}, "d": 1, "m": 400},
            "wait": {
                "tau": {"kind": "recipe", "g": 2.0, "gamma": {"kind": "log", "scale": 4.0}, "m0": 1e5, "m1": 90.0}
            },
        }
    },
    "listed": {"schedule": {"sizes": {"kind": "list", "values": [30, [20, 3], 25]}}},
    "by delay": {"schedule": {"wait": {"tau": {"kind": "power", "scale": 0.5, "power": 0.5, "offset": 400.0}}}},
    "constant": {
        "schedule": {
            "sizes": {"kind": "constant", "size": 40, "per_client": True},
            "steps": {"kind": "constant", "eta": 0.1},
        }
    },
    "curved": {"schedule": {"steps": {"kind": "curvature", "eta0": 0.1, "h": 0.5}}},
    "by gradients": {"schedule": {"rounds": None, "gradients_per_client": 300}},
    "masks": {"schedule": {"blocks": 2}},
    "by schema": {
        "data": {
            **CLASSES,
            "schema": {
                "label": "late",
                "columns": {
                    "age": {"low": 0.5, "high": 99.5, "missing": 40.0, "indicator": True},
                    "city": {"values": ["Oslo", "Rome"]},
                },
            },
        }
    },
    "coins": {"clients": {"shares": "coin", "count": 3}},
    "one client": {"clients": {"count": 1}, "run": {"wire": "float16"}},
}
PRIVACY: dict[str, dict[str, Any]] = {
    "none": {},
    "minibatch": {"mechanism": "minibatch", **PRIVATE, "records": 4000},
    "local": {"mechanism": "local", **PRIVATE, "records": 4000},
    "batch-clip": {"mechanism": "batch-clip", **PRIVATE, "records": 4000},
    "by step": {"mechanism": "minibatch", **PRIVATE, "records": 4000, "sigma": [[2, 4.0], [4, 2.0]]},
}
OWN = {
    "kind": "model.py:Net",
    "sha256": "ab" * 32,
    "features": 4,
    "options": {"width": 3},
    "size": 10,
    "l2": 0.01,
    "dtype": "float64",
    "classes": [0, 1, 2],
    "start": 1.5,
}


@cache
def sound() -> tuple[str, ...]:
    """Terms that hold."""
    found = []
    for shape, changes in SHAPES.items():
        for privacy, asked in PRIVACY.items():
            raw = case(**{"data": CLASSES, **changes, **({"privacy": asked} if asked else {})})
            raw["schedule"] = {name: value for name, value in raw["schedule"].items() if value is not None}
            if shape in ("by theorem", "by recipe", "by gradients") and privacy == "by step":
                continue  # they have other rounds
            text = _text_of(raw)
            found.append(text)
            if privacy in ("minibatch", "batch-clip"):
                found.append(canonical({**json.loads(text), "objective": OWN}))
            if privacy == "minibatch":
                by_layer = json.loads(found[-1])
                by_layer["privacy"]["clip"] = [[9, 0.5], [1, 0.25]]  # of its 10 numbers
                found.append(canonical(by_layer))
    return tuple(found)


def _text_of(raw: dict[str, Any]) -> str:
    """Without the accountant: a text states its sigma, and what that costs is not looked at here."""
    privacy = raw.pop("privacy", None)
    terms = json.loads(terms_text(read(raw)))
    if privacy is not None:
        records = [privacy["records"]] * len(terms["clients"]["names"])
        terms["privacy"] = {"epsilon": None, **privacy, "records": records}
    return canonical(terms)


def canonical(raw: Raw) -> str:
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def changed(rng: Random, text: str) -> str:
    """Another text, a few changes away."""
    if rng.random() < 0.02:
        return broken(rng, text)
    raw = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 5))):
        change(rng, raw)
    return canonical(raw)


# -- changes -----------------------------------------------------------------------------------------------------------


def change(rng: Random, raw: Raw) -> None:
    """One change somewhere, most often of a number."""
    leaves = [path for path in paths(raw) if path]
    path = rng.choice([path for path in leaves if _is_number(at(raw, path))] or leaves)
    if rng.random() < 0.3:
        path = rng.choice(leaves)
    kind: Callable[[Random, Raw, Path], None] = rng.choices(
        (renumbered, replaced, removed, added, listed, doubled), (12, 4, 2, 2, 1, 1)
    )[0]
    kind(rng, raw, path)


def renumbered(rng: Random, raw: Raw, path: Path) -> None:
    old = at(raw, path)
    put(raw, path, number(rng, old) if _is_number(old) else junk(rng))


def replaced(rng: Random, raw: Raw, path: Path) -> None:
    put(raw, path, junk(rng))


def removed(rng: Random, raw: Raw, path: Path) -> None:
    holder = at(raw, path[:-1])
    del holder[path[-1]]


def added(rng: Random, raw: Raw, path: Path) -> None:
    holder = at(raw, path[:-1])
    if isinstance(holder, dict):
        known = ("blocks", "rounds", "gradients", "norm_bound", "sigma", "kind", "per", "root", "m1", "tau", "epsilon")
        holder[rng.choice((*known, "a" * 5000, "\x1b[2J", "\ud800", ""))] = junk(rng)
    else:
        holder.insert(rng.randrange(len(holder) + 1), junk(rng))


def listed(rng: Random, raw: Raw, path: Path) -> None:
    """A list where something else was, or a much longer one."""
    old = at(raw, path)
    many = rng.choice((0, 1, 2, 2, 7, 7, 1000, 20_000))
    put(raw, path, old * many if isinstance(old, list) else [old] * many)


def doubled(rng: Random, raw: Raw, path: Path) -> None:
    """More clients, all of them consistent, or none."""
    n = rng.choice((0, 1, 2, 50, 50, 1000))
    if isinstance(raw.get("clients"), dict):
        raw["clients"] = {**raw["clients"], "names": [f"c{j}" for j in range(n)], "weights": [1 / max(1, n)] * n}
        if isinstance(raw.get("privacy"), dict):
            raw["privacy"] = {**raw["privacy"], "records": [4000] * n}


def broken(rng: Random, text: str) -> str:
    """What is no JSON, or not canonical."""
    place = rng.randrange(len(text))
    return rng.choice(
        (
            lambda: text[:place],
            lambda: text[:place] + rng.choice('{}[],:"0 \n\x00é') + text[place:],
            lambda: text.replace("0.01", rng.choice(("NaN", "Infinity", "1e999", "-0", "1" * 5000)), 1),
            lambda: text + " ",
            lambda: "[" * rng.choice((10, 5000, 200_000)),
            lambda: '{"a":' * 3000 + "1" + "}" * 3000,
            lambda: rng.choice(("", "null", "[]", "{}", '"terms"', "7", "true")),
        )
    )()


# -- values ------------------------------------------------------------------------------------------------------------

WHOLE = (
    0,
    1,
    2,
    3,
    7,
    64,
    1000,
    10**6,
    10**9,
    2**31,
    2**53 + 1,
    2**62,
    2**63,
    2**64 + 1,
    10**30,
    10**320,
    -1,
    -(2**63),
)
FLOATS = (
    0.0,
    -0.0,
    5e-324,
    1e-323,
    2.3e-308,
    1e-200,
    1e-60,
    1e-20,
    1e-8,
    0.3,
    0.5,
    1.0,
    1.5,
    2.1434,
    1e3,
    1e8,
    1e15,
    1e16,
)
LARGE = (1e20, 1e60, 1e150, 1e200, 1e300, 1.7e308)


def number(rng: Random, old: float) -> Any:
    """Another number: near the old one, or of any size."""
    how = rng.random() if abs(old) < 10**300 else 1.0
    if how < 0.3:
        return old * rng.choice((1 + 2**-52, 0.5, 2, 3, 10, 0.1, 100, -1))
    if how < 0.45 and isinstance(old, float):
        return math.ldexp(math.frexp(old)[0] or 0.5, rng.randrange(-1074, 1024))
    if how < 0.5:
        return rng.choice((str(old), bool(old), [old], float(old)))
    return rng.choice((*WHOLE, *FLOATS, *LARGE))


def junk(rng: Random) -> Any:
    simple = (
        None,
        True,
        False,
        "",
        "x",
        "float32",
        "minibatch",
        "local",
        "\x1b]0;evil\x07",
        "a\nb",
        "‮",
        "\ud800",
        "0",
        "nan",
    )
    nested: tuple[Any, ...] = (
        [],
        {},
        [[]],
        {"kind": "constant"},
        {"kind": "power", "scale": 1e300},
        [1, [2, 3]],
        "y" * 3000,
    )
    return rng.choice((*simple, *nested, *WHOLE, *FLOATS, *LARGE))


# -- places ------------------------------------------------------------------------------------------------------------


def paths(raw: Raw, before: Path = ()) -> Iterator[Path]:
    """Every place in nested data; of a long list the first few."""
    yield before
    items = raw.items() if isinstance(raw, dict) else enumerate(raw[:3]) if isinstance(raw, list) else ()
    for name, inner in items:
        yield from paths(inner, (*before, name))


def at(raw: Raw, path: Path) -> Any:
    for name in path:
        raw = raw[name]
    return raw


def put(raw: Raw, path: Path, value: Any) -> None:
    at(raw, path[:-1])[path[-1]] = value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
