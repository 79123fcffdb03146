"""A client that is cut off while the others do hundreds of rounds loses none that it charged, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.errors import DataError
from crescendo.storage.journal.journal_entries import Absent
from tests.network.final_checks import charges_of, check_with_absences, entries_of, pairs_in
from tests.network.process_tree import FLAT, TWO, ProcessTree, Shape
from tests.network.processes import federation
from tests.network.proxy import Gate
from tests.network.random_kills import long_case

pytestmark = pytest.mark.soak

AHEAD, CUT = 11, 300  # rounds that a client may do ahead, and rounds for which the line is down
CASES: dict[str, tuple[Shape, str, str]] = {  # the tree, the party whose line is cut, and its parent
    "flat": (FLAT, "client", "server"),
    "a client of a tree": (TWO, "client", "left"),
    "an aggregator of a tree": (TWO, "left", "server"),
}


def cut_off(folder: Path, shape: Shape) -> ProcessTree:
    raw = long_case("none", CUT + 200, ahead=AHEAD)
    raw["serve"].update(absent_after=1.0)
    parents, places = shape
    return ProcessTree(federation(folder, raw), parents, list(places))


def applied(tree: ProcessTree, c: int) -> set[int]:
    """The rounds of a client that were applied; the journal is read while the server writes it."""
    try:
        return {i for entry in entries_of(tree.made) for i, client in pairs_in(entry) if client == c}
    except (OSError, DataError):
        return set()  # it is being made


def last_of_others(tree: ProcessTree) -> int:
    """The last round of the client that no cut reaches."""
    return max(applied(tree, len(tree.made.names) - 1), default=-1)


@pytest.mark.parametrize("name", CASES)
def test_a_cut_of_300_rounds_loses_no_charged_round(name: str, tmp_path: Path) -> None:
    shape, who, parent = CASES[name]
    with cut_off(tmp_path, shape) as tree, Gate(tree.ports[parent]) as line:
        made = tree.made
        if who == "left":
            tree.doors["server"] = line.port
        made.start_server()
        for node in tree.parents:
            tree.start_node(node)
            tree.doors["server"] = made.port
        for c in range(1, len(made.names)):
            tree.start_client(c)
        made.start_client(0, port=line.port if who == "client" else tree.ports["left"])
        made.until(lambda: bool(applied(tree, 0)) and last_of_others(tree) >= 10, "all are at work")
        line.down()
        cut_at = last_of_others(tree)
        made.until(lambda: last_of_others(tree) >= cut_at + CUT, f"{CUT} rounds without client 0")
        waiting = set(charges_of(made, 0)) - applied(tree, 0)
        line.up()
        tree.wait()
        pairs = check_with_absences(made)
        absences = sum(isinstance(entry, Absent) for entry in entries_of(made))
        print(f"{name}: cut at {cut_at}, {len(waiting)} rounds charged in the cut, {absences} absences, {pairs} pairs")
        assert len(waiting) > 3, "nothing was in the outbox"
        assert waiting <= applied(tree, 0) and absences
