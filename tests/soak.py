"""The soak: how long its tests are, and how long all of them may take.

`CRESCENDO_SOAK` multiplies what each test tries (kills, rounds, texts, plans): 1 without it, 0.1 for a look, 8 for a night.
No test begins once `CRESCENDO_SOAK_MINUTES` are over, 50 for each unit of the former; the rest is skipped and named at the end.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("CRESCENDO_SOAK", "1"))
MINUTES = float(os.environ.get("CRESCENDO_SOAK_MINUTES", str(50 * max(1.0, FACTOR))))


def times(count: int, factor: float = FACTOR) -> int:
    """Return how many of something a test tries.

    >>> times(50, 0.1), times(3, 0.1), times(50, 8)
    (5, 1, 400)
    """
    return max(1, round(count * factor))
