"""What must hold after a run, from what three parties have: the server's journal, the clients' ledgers, and the wire."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crescendo.core.terms import Terms
from crescendo.core.vectors import item_bytes
from crescendo.federation.last_model import LastModel
from crescendo.storage.journal.journal_entries import Absent, Back, Entry, Left, Opened, Received, Summed, Voided
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.server_state import ServerState
from crescendo.storage.journal.snapshots import Snapshot
from tests.network.final_checks import Pair, charges_in, check_sum, entries_in, pairs_in
from tests.network.virtual.journals import whole_journal

if TYPE_CHECKING:
    from tests.network.virtual.federation import Federation
    from tests.network.virtual.wire_tap import WireTap

MOST_ATTEMPTS = 300  # streams in a minute, of a client whose connections break as soon as they are made
ALARMS = ("alarm", "journal_damaged", "stream_failed")


def final_problems(federation: Federation, tap: WireTap) -> Iterator[str]:
    """Everything that is wrong, in sentences."""
    yield from tap.problems
    for machine in federation.machines:
        for error in machine.unexpected:
            yield f"{machine.name} raised {error!r}"
        if machine in federation.clients and machine not in federation.honest:
            continue
        for _, event, facts in machine.log:
            honest = facts.get("client") not in federation.hostile_names
            pair = facts.get("round"), federation.agreed.indices.get(facts.get("client", ""), -1)
            if honest and (event in ALARMS or (event == "void_update" and pair not in federation.once_applied)):
                yield f"{machine.name} logged {event}: {facts}"
    journal = whole_journal(federation.server.folder, federation.folder / "whole journal")
    entries = entries_in(journal)
    yield from _model_problems(federation, journal)
    yield from _round_problems(federation, entries)
    yield from _state_problems(federation, entries)
    yield from _pair_problems(federation, tap, entries)
    yield from _size_problems(federation, tap)


def _model_problems(federation: Federation, journal: Path) -> Iterator[str]:
    """The model is what the journal adds up to, bit for bit, at the server and in its file."""
    adds_up = replay(journal)
    service = federation.server.noted["service"]
    if service.durable._state.server.model.tobytes() != adds_up.tobytes():
        yield "the server's model is not what its journal adds up to"
    saved = LastModel.load(federation.server.folder / "model.npz")
    if federation.server.is_finished and (saved is None or np.asarray(saved.model).tobytes() != adds_up.tobytes()):
        yield "model.npz is not what the journal adds up to"


def _round_problems(federation: Federation, entries: list[Entry]) -> Iterator[str]:
    """k is what the journal's entries come to by the pseudocode: a round is complete when it waits for nobody."""
    found = federation.server.noted["service"].durable._state.server.k
    if found != (k := literal_k(federation.agreed.terms, entries)):
        yield f"the server is at k={found}, and by its journal k={k}"


def _state_problems(federation: Federation, entries: list[Entry]) -> Iterator[str]:
    """The server's state, which went through snapshots and restarts, is what all entries come to, bit for bit."""
    first, *rest = entries
    assert isinstance(first, Opened)
    literal = ServerState.opened(first, federation.agreed.terms)
    for entry in rest:
        literal.apply(entry)
    found = federation.server.noted["service"].durable._state
    off = Snapshot(0, 0, _fields(found)).differences(_fields(literal))
    if off:
        yield f"the server's state is not what its journal comes to, in {', '.join(off)}"


def _fields(state: ServerState) -> dict[str, Any]:
    """What a state exports, and the same arrays where they are: what an export forgets is found."""
    server = state.server
    own = {
        "own last": server._last,
        "own present": server._present,
        "own gone": server._gone,
        "own model": server.model,
    }
    settled = {f"own settled {c}": list(server.settled(c)) for c in range(server.terms.clients) if not server._gone[c]}
    return {**state.export(), **own, **settled}


def literal_k(terms: Terms, entries: list[Entry]) -> int:
    """Where a server is after these entries."""
    settled, present, k = set[Pair](), set[int](), 0
    last = dict.fromkeys(range(terms.clients), -1)
    for entry in entries:
        match entry:
            case Opened():
                present = set(entry.present)
            case Received() | Summed():
                settled.update(pairs_in(entry))
                for i, c in pairs_in(entry):
                    last[c] = max(last[c], i)
            case Voided(i, c):
                settled.add((i, c))
            case Absent(c):
                present.discard(c)
            case Left(c):
                present.discard(c)
                settled.update((i, c) for i in range(terms.rounds))
            case Back(c, sent):
                last[c] = sent
                if c not in present:
                    settled.update((i, c) for i in range(sent + 1, k))
                    present.add(c)
        while present and k < terms.rounds and all((k, c) in settled or not terms.share(k, c) for c in present):
            k += 1
    return k


def _pair_problems(federation: Federation, tap: WireTap, entries: list[Entry]) -> Iterator[str]:
    applied = Counter(pair for entry in entries for pair in pairs_in(entry))
    yield from (f"applied {times} times: round {i} of client {c}" for (i, c), times in applied.items() if times > 1)
    void = {(entry.round, entry.client): entry.reason for entry in entries if isinstance(entry, Voided)}
    for c, machine in enumerate(federation.clients):
        if machine in federation.honest:
            yield from _client_problems(federation, tap, c, {i for i, client in applied if client == c}, void)
    honest = {c for c, machine in enumerate(federation.clients) if machine in federation.honest}
    for entry in entries:
        if any(c not in honest for _, c in pairs_in(entry)):
            continue
        if any(pair not in tap.sent for pair in pairs_in(entry)):
            yield f"applied and never sent: {pairs_in(entry)}"
        elif isinstance(entry, Received) and bytes(entry.data) != tap.sent[entry.round, entry.client].data:
            yield f"round {entry.round} of client {entry.client} was changed on the way"
        elif isinstance(entry, Summed):
            try:
                check_sum(entry, [tap.sent[pair].data for pair in entry.pairs], federation.agreed.wire)
            except AssertionError as error:
                yield str(error)


def _client_problems(
    federation: Federation, tap: WireTap, c: int, applied: set[int], void: dict[Pair, str]
) -> Iterator[str]:
    """Ledger, wire and journal hold the same pairs. After an older copy the server may lack what it had acknowledged."""
    charged = charges_in(federation.clients[c].folder / "ledger.sqlite")
    yield from (f"client {c}: round {i} was applied and never charged" for i in sorted(applied - charged.keys()))
    for i in sorted(charged.keys() - applied):
        if (i, c) not in federation.once_applied:
            yield f"client {c}: round {i} was charged and is lost ({void.get((i, c), 'and is not void')})"
    for (i, client), sent in tap.sent.items():
        if client == c and i not in charged:
            yield f"client {c}: round {i} was sent and never charged"
        elif client == c and sent.sha256 is not None and sent.sha256 != charged[i]:
            yield f"client {c}: other bytes of round {i} were sent than charged"


def _size_problems(federation: Federation, tap: WireTap) -> Iterator[str]:
    shape, agreed = federation.shape, federation.agreed
    if tap.longest > 4096 + 16 * shape.rounds:
        yield f"a client sent a message of {tap.longest} bytes that is no part of a vector"
    vector = agreed.size * item_bytes(agreed.wire)
    most = 2 * len(agreed.text) + vector + 4096 + 16 * shape.rounds * shape.clients
    if federation.longest_down > most:
        yield f"a message of {federation.longest_down} bytes went to a client, and {most} are enough"
    for machine in [*federation.honest, *federation.aggregators]:
        if (most := federation.network.most_attempts[machine]) > MOST_ATTEMPTS:
            yield f"{machine.name} opened {most} streams in a minute"
    for machine in federation.clients:
        for path in machine.folder.glob("seen-*.json"):
            if path.stat().st_size > 4096:
                yield f"{machine.name} keeps {path.stat().st_size} bytes in {path.name}"


def fingerprint(federation: Federation) -> str:
    """Of everything that was logged: two runs of a seed have the same."""
    found = hashlib.sha256()
    for machine in federation.machines:
        for at, event, facts in machine.log:
            line = f"{machine.name} {at:.6f} {event} {facts}\n"
            found.update(line.replace(str(federation.folder), "").encode())
    return found.hexdigest()
