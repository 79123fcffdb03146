"""Masks behind an aggregator: rounds of different blocks stay apart."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Update
from crescendo.core.server import Server
from tests.core import planted_trees as planted
from tests.core import properties as p
from tests.core.play import accepted
from tests.core.strategies import make_terms, seeds


def masked_run(aggregator: Any, seed: int) -> None:
    """All updates of a masked run, in any order, through one aggregator that packs now and then."""
    rng = np.random.default_rng(seed)
    masked = make_terms((8,) * 6, (0.25,) * 4, {"ahead": 9}, blocks=3)
    updates = [
        Update(i, c, rng.normal(size=np.diff(masked.block(i, 12))[0]).astype(np.float32))
        for i in range(6)
        for c in range(4)
    ]
    flat, server, node = Server(masked, np.ones(12)), Server(masked, np.ones(12)), aggregator(masked, 12)
    for update in updates:
        flat.receive(update)
    node.join("all", range(4))
    for number in rng.permutation(len(updates)):
        node.receive("all", updates[number])
        if rng.random() < 0.2:
            for total in iter(node.pack, None):
                accepted(server.receive_sum, total)
            node.hear(server.word(range(4)))
    for total in iter(node.pack, None):
        accepted(server.receive_sum, total)
    assert server.finished
    np.testing.assert_allclose(server.model, flat.model, rtol=1e-12)


def test_rounds_of_different_blocks_are_never_added_and_the_model_is_the_flat_server_s() -> None:
    p.for_all(seeds, partial(masked_run, Aggregator), 20)


def test_an_aggregator_that_mixes_blocks_is_seen() -> None:
    with pytest.raises(AssertionError, match="mixes rounds that move different blocks"):
        p.for_all(seeds, partial(masked_run, planted.MixesBlocks), 20)
