"""Kill anybody at any instant: the run ends all the same, nothing is lost, nothing is sent twice with other bytes.

The quick version is part of every test run; `make soak` runs the long one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.network.final_checks import check
from tests.network.process_tree import FLAT, ProcessTree
from tests.network.processes import federation
from tests.network.proxy import BadNetwork
from tests.network.random_kills import applied_in, kill_at_random, long_case, some_seed
from tests.soak import times


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["none", "minibatch", "local"])
def test_a_few_kills_of_anybody_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    with ProcessTree(federation(tmp_path, long_case(mechanism, rounds=60)), *FLAT) as tree:
        kill_at_random(tree, random.Random(f"quick {mechanism}"), kills=8, whom="anybody")
        tree.wait()
        check(tree.made)


@pytest.mark.slow
def test_everybody_stops_well_when_asked_and_goes_on_later(tmp_path: Path) -> None:
    with federation(tmp_path, long_case("none", rounds=150)) as made:
        made.start()
        made.until(lambda: applied_in(made) > 100, "100 updates")
        for process in [*made.clients.values(), made.server]:
            assert process is not None and process.pid is not None
            process.terminate()
        made.join(*made.clients.values())
        made.stop_server()
        assert [made.events(f"client{c}.log")[-1]["event"] for c in range(5)] == ["stopped"] * 5
        made.start()
        made.wait()
        check(made)
        assert not [facts for facts in made.events("server.log") if facts["event"] in ("refused", "void")]


@pytest.mark.slow
def test_a_network_that_cuts_and_delays_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random("bad network")
    with ProcessTree(federation(tmp_path, long_case("none", rounds=60)), *FLAT) as tree:
        with BadNetwork(tree.made.port, rng) as network:
            tree.doors["server"] = network.port
            tree.start()
            tree.wait()
        check(tree.made)
        assert network.cuts > 10


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch"])
def test_kills_on_a_network_that_cuts_and_delays_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    rng = some_seed()
    with ProcessTree(federation(tmp_path, long_case(mechanism, rounds=times(400))), *FLAT) as tree:
        with BadNetwork(tree.made.port, rng) as network:
            tree.doors["server"] = network.port
            kill_at_random(tree, rng, kills=times(50), whom="anybody")
            tree.wait()
        check(tree.made)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "local"])
@pytest.mark.parametrize("whom", ["server", "clients", "anybody", "several"])
def test_fifty_kills_lose_nothing(mechanism: str, whom: str, tmp_path: Path) -> None:
    with ProcessTree(federation(tmp_path, long_case(mechanism, rounds=times(600))), *FLAT) as tree:
        kill_at_random(tree, some_seed(), kills=times(50), whom=whom)
        tree.wait()
        check(tree.made)
