"""Parts of a few bytes, so that a model of five numbers has several."""

from __future__ import annotations

import pytest

from crescendo.network.aggregator import upstream
from crescendo.network.client import client_session
from crescendo.network.protocol import resumption, vector_parts
from crescendo.network.server import aggregator_streams, session

PART, SMALL_PART = 16, 8
_PARTS = (resumption, vector_parts)
_SMALL = (*_PARTS, session, aggregator_streams, client_session, upstream)


def use_small_parts(patch: pytest.MonkeyPatch, part: int = PART, small: int = SMALL_PART) -> None:
    """For this test, everywhere."""
    for module in _PARTS:
        patch.setattr(module, "PART", part)
    for module in _SMALL:
        patch.setattr(module, "SMALL_PART", small)
