"""Values at a bound: one less, the bound, and one more."""

from __future__ import annotations

import pytest


def around(bound: float) -> pytest.MarkDecorator:
    """Try a test with one less than the bound, with the bound, and with one more, as its argument ``many``."""
    return pytest.mark.parametrize("many", [int(bound) - 1, int(bound), int(bound) + 1])
