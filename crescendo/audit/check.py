"""One statistical check: its name, what it looks for, what it looks at, and its statistic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from crescendo.audit.scores import Tested


@dataclass(frozen=True)
class Check:
    """``test`` turns evidence into a p-value. ``exact``: meant to be uniform under a sound mechanism, and a
    thousand audits did not deny it; else meant to be at least as large. docs/audit.md says which were denied.

    ``share`` is its part of the level of the whole audit, against the shares of the others.
    """

    name: str
    looks_for: str
    evidence: Literal["noise", "draws", "words"]
    test: Callable[[Any, np.random.Generator], Tested]
    exact: bool = True
    share: float = 1.0
