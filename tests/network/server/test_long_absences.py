"""A client that was cut off for hundreds of rounds loses none that it charged, however it sends them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from tests.network.server.service_play import BelowANode, away, long_run, played

OUTBOX = 11
LARGE = 40_000  # features: an update of 320 kB


@pytest.mark.parametrize("together", [1, 4, OUTBOX])
@pytest.mark.parametrize("gone", [256, 268, 700])
def test_every_charged_round_is_applied_after_a_long_cut(tmp_path: Path, gone: int, together: int) -> None:
    with played(tmp_path, long_run(gone + 20, ahead=OUTBOX)) as on:
        away(on, gone, OUTBOX)
        on.sends(0, range(OUTBOX), together)
        assert on.applied(0, range(OUTBOX)) == [*range(OUTBOX)]
        assert on.durable.settled(0) == Settled(gone) and on.void(0, range(gone)) == [*range(OUTBOX, gone)]


def test_every_charged_round_of_large_updates_is_applied_after_a_long_cut(tmp_path: Path) -> None:
    """Large ones come one at a time, so that each is in a batch of its own."""
    with played(tmp_path, long_run(320, ahead=4, features=LARGE)) as on:
        for c in (0, 1):
            on.joins(c)
        on.is_absent(0)
        on.voids(1, range(300))  # what client 1 did is no matter, and its updates would take a while
        on.joins(0, last=3)
        assert len(on.update(0, 0).data) > 256 << 10
        on.sends(0, range(4))
        assert on.applied(0, range(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("most", [1, 3, OUTBOX])
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_charged_round_is_applied_after_a_long_cut_below_an_aggregator(
    tmp_path: Path, most: int, blocks: int
) -> None:
    """With masks a sum holds the rounds of one block only, so that later rounds overtake earlier ones."""
    with played(tmp_path, long_run(340, ahead=OUTBOX, blocks=blocks)) as on:
        away(on, 300, OUTBOX)
        BelowANode(on, most).sends({0: range(OUTBOX), 1: range(300, 310)})
        assert on.applied(0, range(OUTBOX)) == [*range(OUTBOX)]
        assert on.durable.settled(0) == Settled(300)


def test_every_charged_round_is_applied_after_one_cut_upon_the_other(tmp_path: Path) -> None:
    """Each time the client comes back, does a few rounds that never arrive, and is gone again."""
    with played(tmp_path, long_run(3000, ahead=5)) as on:
        welcome, charged = away(on, 300, 3), [0, 1, 2]
        for _ in range(4):
            on.is_absent(0)
            charged += range(welcome.start, welcome.start + 2)
            on.sends(1, range(on.durable.k, on.durable.k + 300), together=100)
            welcome = on.joins(0, last=charged[-1])
        assert charged == [0, 1, 2, *range(300, 308)], "from its second absence on it is on probation"
        on.sends(0, charged)
        assert on.applied(0, charged) == charged and not on.service.returns.on_probation(0)
        on.joins(0, last=charged[-1])
        assert on.durable.settled(0) == Settled(on.durable.k)
