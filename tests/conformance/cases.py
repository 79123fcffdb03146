"""The runs that every runtime is held to: small, and each with something of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OWN_MODEL = f"{Path(__file__).resolve().parents[2] / 'examples' / 'own_model.py'}:Softmax"
BASE: dict[str, Any] = {
    "run": {"seed": 7, "wire": "float64"},
    "data": {"source": "synthetic:rows=500,features=4", "classes": None},
    "clients": {"count": 5, "weights": "uniform"},
    "objective": {"l2": 0.01},
    "schedule": {
        "rounds": 6,
        "sizes": {"kind": "power", "scale": 30},
        "steps": {"kind": "diminishing", "eta0": 0.05, "beta": 0.01},
        "wait": {"rounds": 1},
    },
    "serve": {"federation": "conformance", "features": 4, "absent_after": 30.0},
}
PRIVATE: dict[str, Any] = {"delta": 1e-6, "sigma": 2.0, "clip": 0.5, "norm_bound": 3.0, "records": 80}


def case(**changes: dict[str, Any]) -> dict[str, Any]:
    """The base with some keys of its sections changed."""
    raw = {section: {k: v for k, v in values.items() if v is not None} for section, values in BASE.items()}
    for section, values in changes.items():
        raw[section] = {**raw.get(section, {}), **values}
    return raw


def own(**changes: dict[str, Any]) -> dict[str, Any]:
    """A model of somebody's own, whose first model is random, on ten classes."""
    raw = case(serve={"features": 64}, data={"source": "digits", "classes": list(range(10))}, **changes)
    return {**raw, "objective": {"kind": OWN_MODEL, "options": {"classes": 10}}}


CASES: dict[str, dict[str, Any]] = {
    "in step": case(schedule={"wait": {"rounds": 0}}),
    "one round ahead": case(run={"wire": "float32"}),
    "narrow floats": case(run={"wire": "bfloat16"}),
    "by delay": case(schedule={"wait": {"tau": 400.0}}),
    "masks": case(schedule={"blocks": 2}),
    "coins": case(clients={"shares": "coin"}, schedule={"sizes": {"kind": "constant", "size": 4}, "rounds": 12}),
    "minibatch": case(privacy={"mechanism": "minibatch", **PRIVATE}),
    "local": case(privacy={"mechanism": "local", **PRIVATE}),
    "batch-clip": case(privacy={"mechanism": "batch-clip", **PRIVATE, "clip": 0.05}),
    "own model": own(),
    "mean": case(clients={"combine": "mean"}),
    "minibatch, mean": case(clients={"combine": "mean"}, privacy={"mechanism": "minibatch", **PRIVATE}),
}
IN_STEP: dict[str, dict[str, Any]] = {
    "plain": CASES["in step"],
    "masks": case(schedule={"wait": {"rounds": 0}, "blocks": 2}),
    "minibatch": case(schedule={"wait": {"rounds": 0}}, privacy={"mechanism": "minibatch", **PRIVATE}),
    "local": case(schedule={"wait": {"rounds": 0}}, privacy={"mechanism": "local", **PRIVATE}),
    "softmax, minibatch": {
        **case(schedule={"wait": {"rounds": 0}}, privacy={"mechanism": "minibatch", **PRIVATE}),
        "data": {"source": "iris", "classes": [0, 1, 2]},
        "objective": {"kind": "softmax"},
    },
    "least squares, local": {
        **case(schedule={"wait": {"rounds": 0}}, privacy={"mechanism": "local", **PRIVATE}),
        "data": {"source": "iris"},
        "objective": {"kind": "least-squares", "label_range": [0, 2]},
    },
    "own model": own(schedule={"wait": {"rounds": 0}}),
    "own model, minibatch": own(
        schedule={"wait": {"rounds": 0}}, privacy={"mechanism": "minibatch", **PRIVATE, "records": 300}
    ),
}
