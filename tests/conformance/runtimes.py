"""Each runtime as one function: a run file in, what the server did out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.to_terms import terms_text
from crescendo.core.terms import Terms
from crescendo.federation.agreement import build_terms
from crescendo.runs.simulate import simulate
from tests.network.final_checks import check, entries_of, pairs_in
from tests.network.process_tree import DEEP, FLAT, ProcessTree, Shape
from tests.network.processes import Federation, federation

Pairs = tuple[tuple[int, int], ...]  # (round, client)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The server's model at the end, and the pairs that it applied, in order; those of one sum at once."""

    terms: Terms
    model: np.ndarray[Any, np.dtype[np.float64]]
    steps: list[Pairs]
    k: int

    @property
    def applied(self) -> list[tuple[int, int]]:
        return [pair for step in self.steps for pair in step]


def on_the_simulator(raw: dict[str, Any], folder: Path) -> Outcome:
    result = simulate(raw)
    updates = result.trace.tables["updates"]
    pairs = zip(updates["round"].tolist(), updates["client"].tolist(), strict=True)
    return Outcome(result.prepared.terms, result.model, [(pair,) for pair in pairs], result.rounds)


def on_the_network(raw: dict[str, Any], folder: Path, shape: Shape = FLAT) -> Outcome:
    """A server and five clients, each a process of its own, over sockets. Noise is seeded here, so that runs can be compared."""
    with ProcessTree(federation(folder, raw, seeded=True), *shape) as tree:
        tree.start()
        tree.wait()
        return outcome(tree.made)


def in_a_tree(raw: dict[str, Any], folder: Path) -> Outcome:
    """The same with aggregators, one below another, and clients at every height."""
    return on_the_network(raw, folder, DEEP)


def outcome(made: Federation) -> Outcome:
    """What the journal of a federation that has ended says, once it has been checked against what its clients sent."""
    check(made)
    steps = [pairs for entry in entries_of(made) if (pairs := pairs_in(entry))]
    terms = build_terms(terms_text(made.config)).terms
    return Outcome(terms, made.model(), steps, terms.rounds)


RUNTIMES = {"simulator": on_the_simulator, "network": on_the_network, "tree": in_a_tree}
