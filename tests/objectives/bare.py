"""A bare objective for tests that need a gradient and little else."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.objectives.base import Objective


class Bare(Objective):
    """One number, zero at first, and no scores. Tests give it a gradient."""

    size: int = 1
    dtype: np.dtype[Any] = np.dtype(np.float64)

    def initial(self, rng: Any) -> Any:
        return np.zeros(self.size)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        return np.zeros(self.size)

    def evaluate(self, w: Any, data: Any, *how: Any, **more: Any) -> dict[str, Any]:
        return {}
