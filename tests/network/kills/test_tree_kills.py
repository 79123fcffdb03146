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
from tests.network.final_checks import check, entries_of
from tests.network.process_tree import DEEP, TWO, ProcessTree, Shape
from tests.network.processes import federation
from tests.network.proxy import BadNetwork
from tests.network.random_kills import kill_at_random, long_case, some_seed
from tests.soak import times


def planted(folder: Path, mechanism: str, rounds: int, shape: Shape) -> ProcessTree:
    """A tree, not started yet."""
    parents, places = shape
    return ProcessTree(federation(folder, long_case(mechanism, rounds, ahead=2)), parents, list(places))


def check_long(tree: ProcessTree) -> None:
    """In a run of hundreds of rounds some updates meet at an aggregator; in a short one on a busy machine none may."""
    check(tree.made)
    assert any(isinstance(entry, Summed) and len(entry.pairs) > 1 for entry in entries_of(tree.made)), (
        "nothing was added up"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whom", "mechanism"),
    [("aggregators", "none"), ("anybody", "none"), ("movers", "none"), ("several", "minibatch")],
)
def test_a_few_kills_in_a_tree_lose_nothing(whom: str, mechanism: str, tmp_path: Path) -> None:
    with planted(tmp_path, mechanism, 60, DEEP) as tree:
        kill_at_random(tree, random.Random(f"tree {whom}"), kills=8, whom=whom)
        tree.wait()
        check(tree.made)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "local"])
@pytest.mark.parametrize("whom", ["aggregators", "anybody", "several"])
def test_fifty_kills_in_a_tree_lose_nothing(mechanism: str, whom: str, tmp_path: Path) -> None:
    with planted(tmp_path, mechanism, times(600), TWO) as tree:
        kill_at_random(tree, some_seed(), kills=times(50), whom=whom)
        tree.wait()
        check_long(tree)


@pytest.mark.soak
@pytest.mark.parametrize("whom", ["aggregators", "anybody", "movers"])
def test_fifty_kills_in_a_deep_tree_lose_nothing(whom: str, tmp_path: Path) -> None:
    with planted(tmp_path, "none", times(600), DEEP) as tree:
        kill_at_random(tree, some_seed(), kills=times(50), whom=whom)
        tree.wait()
        check_long(tree)


@contextmanager
def on_a_bad_network(tree: ProcessTree, rng: random.Random) -> Iterator[list[BadNetwork]]:
    """Every way is bad: from clients to aggregators, and from those to the server."""
    with ExitStack() as open_ones:
        networks = {name: open_ones.enter_context(BadNetwork(port, rng)) for name, port in tree.ports.items()}
        tree.doors = {name: network.port for name, network in networks.items()}
        yield list(networks.values())


@pytest.mark.slow
def test_a_tree_on_a_network_that_cuts_and_delays_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random("bad network")
    with planted(tmp_path, "none", 25, TWO) as tree:
        with on_a_bad_network(tree, rng) as networks:
            tree.start()
            tree.wait()
        check(tree.made)
        assert all(network.cuts > 2 for network in networks)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch"])
def test_kills_in_a_tree_on_a_network_that_cuts_and_delays_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    rng = some_seed()
    with planted(tmp_path, mechanism, times(300), TWO) as tree:
        with on_a_bad_network(tree, rng):
            kill_at_random(tree, rng, kills=times(50), whom="anybody")
            tree.wait()
        check_long(tree)
