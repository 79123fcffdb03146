"""Stop clients for longer than the server waits for them, in the middle of long rounds, and kill anybody meanwhile.

What was charged, what was sent and what was applied must be the same, pair by pair.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crescendo.errors import DataError
from crescendo.storage.journal.journal_entries import Absent
from tests.network.final_checks import check_with_absences, entries_of, pairs_in
from tests.network.process_tree import FLAT, TWO, Name, ProcessTree, Shape
from tests.network.processes import CONTEXT, federation
from tests.network.random_kills import AT_ONCE, long_case, some_seed
from tests.soak import times

ABSENT_AFTER = 1.0  # seconds
LONG = 1.0  # seconds of the longest round: about as long as a stop, so that rounds end around each return


def slow_tree(folder: Path, mechanism: str, rounds: int, shape: Shape) -> ProcessTree:
    raw = long_case(mechanism, rounds)
    raw["serve"]["absent_after"] = ABSENT_AFTER
    made = federation(folder, raw)
    made.longest_piece = LONG
    parents, places = shape
    return ProcessTree(made, parents, list(places))


def disturb(tree: ProcessTree, rng: random.Random, kills: int, stops: int) -> None:
    """Start everybody, and all along the run kill anybody or stop some clients, in any order."""
    tree.start()
    made, deeds = tree.made, [*["kill"] * kills, *["stop"] * stops]
    rng.shuffle(deeds)
    rounds = (made.config.schedule.rounds or 0) - 3
    instants = sorted(rng.randrange(rounds) for _ in deeds)
    for instant, deed in zip(instants, deeds, strict=True):
        made.until(lambda at=instant: last_round(tree) >= at, f"round {instant}")  # type: ignore[misc]
        CONTEXT.Event().wait(rng.uniform(0.0, AT_ONCE))
        clients: list[Name] = [name for name in tree.alive() if isinstance(name, int)]
        if deed == "kill":
            tree.kill(rng.choice(tree.alive()))
        elif len(clients) > 1:  # one at least is heard: while nobody is, nobody becomes absent
            away = rng.sample(clients, rng.randint(1, len(clients) - 1))
            tree.stop_for(rng.uniform(ABSENT_AFTER, 2.5 * ABSENT_AFTER), *away)


def last_round(tree: ProcessTree) -> int:
    """The last round of which something was applied; the journal is read while the server writes it."""
    try:
        return max((i for entry in entries_of(tree.made) for i, _ in pairs_in(entry)), default=-1)
    except (OSError, DataError):
        return -1  # it is being made


def outcome(tree: ProcessTree, kills: int, stops: int) -> None:
    pairs = check_with_absences(tree.made)
    absences = sum(isinstance(entry, Absent) for entry in entries_of(tree.made))
    print(f"{kills} kills, {stops} stops, {absences} absences, {pairs} pairs charged, sent and applied")
    assert absences, "nobody was ever absent"


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch"])
@pytest.mark.parametrize("shape", [FLAT, TWO], ids=["flat", "tree"])
def test_absences_in_long_rounds_and_kills_drop_nothing_that_was_charged(
    mechanism: str, shape: Shape, tmp_path: Path
) -> None:
    rng, kills, stops = some_seed(), times(125), times(25)
    with slow_tree(tmp_path, mechanism, times(80), shape) as tree:
        disturb(tree, rng, kills, stops)
        tree.wait()
        outcome(tree, kills, stops)
