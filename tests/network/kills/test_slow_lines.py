"""A line that is slow and drops: rounds complete, for at most 1.3 times the bytes that they take without a cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.final_checks import check
from tests.network.process_tree import ProcessTree
from tests.network.processes import federation
from tests.network.proxy import SlowLine
from tests.network.wide_model import wide

pytestmark = pytest.mark.soak

MOST = 1.3
LINES = {  # numbers of the model, rounds, bytes a second, seconds between two cuts
    "16 MB over 2 MB/s, a cut every 6 s": (4_000_000, 3, 2e6, 6.0),
    "4 MB over 1 Mbit/s, a cut every 30 s": (1_000_000, 2, 125e3, 30.0),
}


def check_bytes(line: SlowLine, numbers: int, rounds: int, clients: int = 1) -> None:
    """In each round the line has to carry the updates and a model, and the first model before.

    Two updates that an aggregator adds up are a sum in float64, which is as long as both.
    """
    needed = {"up": 4 * numbers * rounds * clients, "down": 4 * numbers * (rounds + 1)}
    print({way: f"{line.carried[way] / needed[way]:.3f} of {needed[way]:,}" for way in needed}, line.cuts, "cuts")
    assert line.cuts > rounds, "the line was not bad"
    assert all(line.carried[way] <= MOST * needed[way] for way in needed)


@pytest.mark.parametrize("name", LINES)
def test_rounds_complete_over_a_slow_line_that_drops(name: str, tmp_path: Path) -> None:
    numbers, rounds, rate, cut_every = LINES[name]
    with federation(tmp_path, wide(numbers, rounds)) as made, SlowLine(made.port, rate, cut_every) as line:
        made.start_server()
        made.start_client(0, port=line.port)
        made.start_client(1)
        made.wait()
        check(made)
    check_bytes(line, numbers, rounds)


@pytest.mark.parametrize("bad", ["aggregator", "client"])
def test_rounds_complete_with_an_aggregator_behind_or_before_such_a_line(bad: str, tmp_path: Path) -> None:
    numbers, rounds, rate, cut_every = LINES["16 MB over 2 MB/s, a cut every 6 s"]
    made = federation(tmp_path, wide(numbers, rounds, clients=3))
    with ProcessTree(made, {"node": "server"}, ["node", "node", "server"]) as tree:
        before = tree.ports["server"] if bad == "aggregator" else tree.ports["node"]
        with SlowLine(before, rate, cut_every) as line:
            if bad == "aggregator":
                tree.doors["server"] = line.port
            made.start_server()
            tree.start_node("node")
            made.start_client(0, port=line.port if bad == "client" else tree.ports["node"])
            made.start_client(1, port=tree.ports["node"])
            made.start_client(2, port=made.port)
            made.wait()
            check(made)
    check_bytes(line, numbers, rounds, clients=2 if bad == "aggregator" else 1)
