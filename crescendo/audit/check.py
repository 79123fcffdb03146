"""Statistical check: its name, the fault that it detects, its evidence, and its statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from crescendo.audit.scores import Tested


@dataclass(frozen=True)
class Check:
    """``test`` turns evidence into a p-value.

    ``exact``: under a sound mechanism the p-value is uniform by construction: one statistic of known law, or Šidák's rule over
    independent ones. Otherwise it is conservative: stochastically no smaller than a uniform one. ``share`` is its part of the
    level of the whole audit, relative to the shares of the others.
    """

    name: str
    looks_for: str
    evidence: Literal["noise", "draws", "words", "large"]
    test: Callable[[Any, np.random.Generator], Tested]
    exact: bool = True
    share: float = 1.0
