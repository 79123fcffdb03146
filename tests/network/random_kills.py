"""Runs that are long enough to be killed in, and who is killed in them, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from crescendo.errors import DataError
from tests.conformance.cases import PRIVATE, case
from tests.network.final_checks import entries_of, pairs_in
from tests.network.process_tree import Name, ProcessTree
from tests.network.processes import CONTEXT, Federation

AT_ONCE = 0.05  # seconds: the longest time from the sign for a kill to the kill


def some_seed() -> random.Random:
    """Another one each time; printed, so that a failure says which."""
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")
    return random.Random(seed)


def long_case(mechanism: str, rounds: int, ahead: int = 1) -> dict[str, Any]:
    schedule = {"rounds": rounds, "sizes": {"kind": "constant", "size": 500}, "wait": {"rounds": ahead}}
    privacy = {} if mechanism == "none" else {"privacy": {"mechanism": mechanism, **PRIVATE, "records": 2000}}
    return case(
        run={"wire": "float32"},
        data={"source": "synthetic:rows=1000,features=4"},
        schedule=schedule,
        serve={"absent_after": 600.0},
        **privacy,
    )


def applied_in(made: Federation) -> int:
    """How many updates the journal holds, in sums or by themselves; it is read while the server writes it."""
    try:
        return sum(len(pairs_in(entry)) for entry in entries_of(made)) if made.journal.exists() else 0
    except (OSError, DataError):
        return 0  # it is being made


def _one(tree: ProcessTree, rng: random.Random, kinds: Callable[[Name], bool]) -> list[Name]:
    possible = [name for name in tree.alive() if kinds(name)]
    return [rng.choice(possible)] if possible else []


def _mover(tree: ProcessTree, rng: random.Random) -> list[Name]:
    """A client that comes back somewhere else in the tree."""
    chosen = _one(tree, rng, lambda name: isinstance(name, int))
    for c in chosen:
        assert isinstance(c, int)
        tree.places[c] = rng.choice(["server", *tree.parents])
    return chosen


def _several(tree: ProcessTree, rng: random.Random) -> list[Name]:
    """Any number of them, up to all, at one instant; they come back in any order."""
    alive = tree.alive()
    return rng.sample(alive, rng.randint(1, len(alive)))


VICTIMS: dict[str, Callable[[ProcessTree, random.Random], list[Name]]] = {
    "server": lambda tree, rng: ["server"],
    "aggregators": lambda tree, rng: _one(tree, rng, lambda name: name in tree.parents),
    "clients": lambda tree, rng: _one(tree, rng, lambda name: isinstance(name, int)),
    "anybody": lambda tree, rng: _one(tree, rng, lambda name: True),
    "movers": _mover,
    "several": _several,
}


def kill_at_random(tree: ProcessTree, rng: random.Random, kills: int, whom: str) -> None:
    """Start everybody, and kill all along the run, each time after a random number of updates and a moment more."""
    tree.start()
    made = tree.made
    updates = (made.config.schedule.rounds or 0) * len(made.names)
    for instant in sorted(rng.sample(range(updates), kills)):
        made.until(lambda at=instant: applied_in(made) >= at, f"{instant} updates")  # type: ignore[misc]
        CONTEXT.Event().wait(rng.uniform(0.0, AT_ONCE))  # an instant that nobody knows; nothing depends on which
        tree.kill(*VICTIMS[whom](tree, rng))
