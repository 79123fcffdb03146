"""Kill aggregators, or anybody in a tree: the same must hold as for a flat server, and is checked as strictly.

The quick version is part of every test run; `make soak` runs the long one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from crescendo.storage.journal.journal_entries import Summed
from tests.network.aftermath import check, entries_of
from tests.network.grove import DEEP, TWO, Grove, Shape
from tests.network.kills import kill_at_random, long_case, some_seed
from tests.network.processes import federation
from tests.network.proxy import BadNetwork


def planted(folder: Path, mechanism: str, rounds: int, shape: Shape) -> Grove:
    """A tree, not started yet."""
    parents, places = shape
    return Grove(federation(folder, long_case(mechanism, rounds, ahead=2)), parents, list(places))


def check_tree(grove: Grove) -> None:
    check(grove.made)
    assert any(isinstance(entry, Summed) and len(entry.pairs) > 1 for entry in entries_of(grove.made)), (
        "nothing was added up"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whom", "mechanism"),
    [("aggregators", "none"), ("anybody", "none"), ("movers", "none"), ("several", "minibatch")],
)
def test_a_few_kills_in_a_tree_lose_nothing(whom: str, mechanism: str, tmp_path: Path) -> None:
    with planted(tmp_path, mechanism, 60, DEEP) as grove:
        kill_at_random(grove, random.Random(f"tree {whom}"), kills=8, whom=whom)
        grove.wait()
        check_tree(grove)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "local"])
@pytest.mark.parametrize("whom", ["aggregators", "anybody", "several"])
def test_fifty_kills_in_a_tree_lose_nothing(mechanism: str, whom: str, tmp_path: Path) -> None:
    with planted(tmp_path, mechanism, 600, TWO) as grove:
        kill_at_random(grove, some_seed(), kills=50, whom=whom)
        grove.wait()
        check_tree(grove)


@pytest.mark.soak
@pytest.mark.parametrize("whom", ["aggregators", "anybody", "movers"])
def test_fifty_kills_in_a_deep_tree_lose_nothing(whom: str, tmp_path: Path) -> None:
    with planted(tmp_path, "none", 600, DEEP) as grove:
        kill_at_random(grove, some_seed(), kills=50, whom=whom)
        grove.wait()
        check_tree(grove)


@contextmanager
def on_a_bad_network(grove: Grove, rng: random.Random) -> Iterator[list[BadNetwork]]:
    """Every way is bad: from clients to aggregators, and from those to the server."""
    with ExitStack() as open_ones:
        networks = {name: open_ones.enter_context(BadNetwork(port, rng)) for name, port in grove.ports.items()}
        grove.doors = {name: network.port for name, network in networks.items()}
        yield list(networks.values())


@pytest.mark.slow
def test_a_tree_on_a_network_that_cuts_and_delays_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random("bad network")
    with planted(tmp_path, "none", 25, TWO) as grove:
        with on_a_bad_network(grove, rng) as networks:
            grove.start()
            grove.wait()
        check_tree(grove)
        assert all(network.cuts > 2 for network in networks)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch"])
def test_kills_in_a_tree_on_a_network_that_cuts_and_delays_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    rng = some_seed()
    with planted(tmp_path, mechanism, 300, TWO) as grove:
        with on_a_bad_network(grove, rng):
            kill_at_random(grove, rng, kills=50, whom="anybody")
            grove.wait()
        check_tree(grove)
