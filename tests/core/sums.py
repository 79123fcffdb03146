"""A federation of four, and sums in it, for tests of servers and aggregators."""

from __future__ import annotations

import numpy as np

from crescendo.core.messages import Sum
from tests.core.strategies import make_terms

FOUR = make_terms((8, 8, 8), (0.25,) * 4, {"ahead": 2})


def some_sum(*pairs: tuple[int, int], size: int = 2, by: float = 1.0) -> Sum:
    """A sum of these (round, client) pairs that moves every number alike."""
    return Sum(pairs, np.full(size, by))
