"""Each runtime as one function: a run file in, what the server did out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.apps.run import simulate
from crescendo.apps.terms import build_terms, terms_text
from crescendo.core.setup import Terms
from crescendo.runtimes.durable import replay
from crescendo.runtimes.entries import Received, Voided, from_bytes
from crescendo.runtimes.journal import read_records
from tests.runtimes.network.processes import Federation, federation


@dataclass(frozen=True, eq=False)
class Outcome:
    """The server's model at the end, and the pairs (round, client) in the order in which they were applied."""

    terms: Terms
    model: np.ndarray[Any, np.dtype[np.float64]]
    applied: list[tuple[int, int]]
    void: list[tuple[int, int]]
    k: int


def on_the_simulator(raw: dict[str, Any], folder: Path) -> Outcome:
    result = simulate(raw)
    updates = result.trace.tables["updates"]
    pairs = list(zip(updates["round"].tolist(), updates["client"].tolist(), strict=True))
    return Outcome(result.prepared.terms, result.model, pairs, [], result.rounds)


def on_the_network(raw: dict[str, Any], folder: Path) -> Outcome:
    """A server and five clients, each a process of its own, over sockets. Noise is seeded here, so that runs can be compared."""
    with federation(folder, raw, seeded=True) as made:
        made.start()
        made.wait()
        return outcome(made)


def outcome(made: Federation) -> Outcome:
    """What the journal of a federation that has ended says."""
    terms = build_terms(terms_text(made.config)).terms
    entries = [from_bytes(record.kind, record.body) for record in read_records(made.journal)]
    applied = [(entry.round, entry.client) for entry in entries if isinstance(entry, Received)]
    void = [(entry.round, entry.client) for entry in entries if isinstance(entry, Voided)]
    model = made.model()
    assert model.tobytes() == replay(made.journal).tobytes()
    return Outcome(terms, model, applied, void, terms.rounds)


RUNTIMES = {"simulator": on_the_simulator, "network": on_the_network}
