"""A run small enough for a test: synthetic data, two clients, three rounds."""

from __future__ import annotations

from typing import Any

from crescendo.config.loading import read
from crescendo.config.schema import Config

SMALL: dict[str, Any] = {
    "data": {"source": "synthetic:rows=200,features=3"},
    "clients": {"count": 2},
    "objective": {"l2": 0.01},
    "schedule": {
        "rounds": 3,
        "sizes": {"kind": "power", "scale": 10},
        "steps": {"kind": "diminishing", "eta0": 0.1, "beta": 0.01},
    },
}

TOML = """
[data]
source = "synthetic:rows=200,features=3"
[clients]
count = 2
[objective]
l2 = 0.01
[schedule]
rounds = 3
sizes = {kind = "power", scale = 10}
steps = {kind = "diminishing", eta0 = 0.1, beta = 0.01}
"""


def small(*overrides: str) -> Config:
    return read(SMALL, overrides)
