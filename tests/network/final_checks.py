"""Everything that must hold of a federation after its end, flat or a tree, whoever was killed on the way.

The oracle has three sources that know nothing of each other: the server's journal, the ledgers of the clients, and what the
clients' processes put on the wire, as they noted it themselves.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from crescendo.config.to_terms import terms_text
from crescendo.core.vectors import decode
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.storage.journal.journal_entries import Entry, Received, Summed, Voided, delta_of, from_bytes
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Segments
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.network.processes import Federation

Pair = tuple[int, int]  # (round, client)


def entries_in(journal: Path) -> list[Entry]:
    """A journal; it may be read while the server writes it."""
    return [from_bytes(record.kind, record.body) for record in Segments(journal).records()]


def entries_of(made: Federation) -> list[Entry]:
    return entries_in(made.journal)


def applied_of(entries: Iterable[Entry], client: int) -> dict[int, str]:
    """By round, the fingerprint of what was applied of a client by itself; each round once."""
    applied = [entry for entry in entries if isinstance(entry, Received) and entry.client == client]
    found = {entry.round: hashlib.sha256(entry.data).hexdigest() for entry in applied}
    assert len(found) == len(applied), f"client {client} was applied twice in a round"
    return found


def pairs_in(entry: Entry) -> tuple[Pair, ...]:
    """The updates that an entry applies, none for most kinds."""
    if isinstance(entry, Received):
        return ((entry.round, entry.client),)
    return entry.pairs if isinstance(entry, Summed) else ()


def check(made: Federation) -> None:
    """The run is over, and nothing was lost, applied twice, changed on the way, or spent that was not promised."""
    agreed, entries = build_terms(terms_text(made.config)), entries_of(made)
    check_applied_once(agreed, entries)
    assert made.model().tobytes() == replay(made.journal).tobytes(), "the model is not what the journal adds up to"
    check_contents(entries, check_sent(made), agreed.wire)
    for c in range(len(made.names)):
        check_ledger(made, agreed, c)
    alarms = [facts for facts in made.events("server.log") if facts["event"] == "alarm"]
    assert not alarms, alarms


def check_with_absences(made: Federation) -> int:
    """The same where clients were away: ledger, wire and journal hold the same pairs with the same bytes. How many there are.

    A round that passed while its client was away is in none of the three: it was never charged.
    """
    agreed, entries = build_terms(terms_text(made.config)), entries_of(made)
    applied, sent = Counter(pair for entry in entries for pair in pairs_in(entry)), check_sent(made)
    charged = {(i, c) for c in range(len(made.names)) for i in charges_of(made, c)}
    assert max(applied.values()) == 1, f"applied twice: {[pair for pair, times in applied.items() if times > 1]}"
    assert charged == set(applied), f"charged and not applied, or applied and not charged: {charged ^ set(applied)}"
    assert charged == set(sent), f"charged and not sent, or sent and not charged: {charged ^ set(sent)}"
    check_contents(entries, sent, agreed.wire)
    assert made.model().tobytes() == replay(made.journal).tobytes(), "the model is not what the journal adds up to"
    for c in range(len(made.names)):
        check_outbox_is_empty(made, agreed, c)
    said = [facts for facts in made.events("server.log") if facts["event"] in ("alarm", "void_update", "void")]
    assert not said, said
    return len(charged)


def check_applied_once(agreed: Agreement, entries: Iterable[Entry]) -> None:
    """Each pair that the terms have, in one entry: an update, or one sum. Nobody was absent, so none is void."""
    terms, applied = agreed.terms, Counter[Pair]()
    for entry in entries:
        assert not isinstance(entry, Voided), f"an update was given up: {entry}"
        applied.update(pairs_in(entry))
    twice = sorted(pair for pair, times in applied.items() if times > 1)
    assert not twice, f"applied twice, as (round, client): {twice}"
    pairs = {(i, c) for i in range(terms.rounds) for c in range(terms.clients) if terms.share(i, c)}
    assert set(applied) == pairs, f"never applied, or not in the terms: {sorted(set(applied) ^ pairs)}"


def check_sent(made: Federation) -> dict[Pair, bytes]:
    """What was sent of each pair: the same bytes whenever it was sent, and those that were charged."""
    found: dict[Pair, bytes] = {}
    for c, name in enumerate(made.names):
        charges = charges_of(made, c)
        for i, versions in made.sent(c).items():
            assert len(versions) == 1, f"{name} sent round {i} with {len(versions)} different contents"
            (data,) = versions
            assert hashlib.sha256(data).hexdigest() == charges[i], (
                f"{name} sent other bytes in round {i} than it charged"
            )
            found[i, c] = data
    return found


def check_contents(entries: Iterable[Entry], sent: Mapping[Pair, bytes], wire: str) -> None:
    """An update in the journal is what its client sent, and a sum is what its clients sent, each once."""
    for entry in entries:
        if isinstance(entry, Received):
            assert entry.data == sent[entry.round, entry.client], f"changed on the way: {pairs_in(entry)}"
        elif isinstance(entry, Summed):
            check_sum(entry, [sent[pair] for pair in entry.pairs], wire)


def check_sum(entry: Summed, sent: list[bytes], wire: str) -> None:
    """Sums are added up in any order, so to a few roundings of float64; a sum of one is exact."""
    total = delta_of(entry)
    numbers = [decode(data, wire, len(total)).astype(np.float64) for data in sent]
    scale = np.sum([np.abs(each) for each in numbers], axis=0)
    off = np.abs(np.sum(numbers, axis=0) - total) > (1e-14 * len(sent) * scale if len(sent) > 1 else 0.0)
    assert not off.any(), f"a sum is not what its clients sent: {entry.pairs}"


def charges_of(made: Federation, c: int) -> dict[int, str]:
    return charges_in(made.folder / f"client{c}" / "ledger.sqlite")


def charges_in(ledger: Path) -> dict[int, str]:
    """By round, the fingerprint of the bytes that a client charged; each round once."""
    file = LedgerFile(ledger, read_only=True)
    try:
        charged = [entry.body for entry in file.entries if entry.kind == "charge"]
    finally:
        file.close()
    found = {body["round"]: body["sha256"] for body in charged}
    assert len(found) == len(charged), f"a round was charged twice in {ledger}"
    return found


def check_ledger(made: Federation, agreed: Agreement, c: int) -> None:
    """Every round of the plan was charged and no other, within the budget, and the outbox is empty."""
    with open_ledger(made.folder / f"client{c}" / "ledger.sqlite", read_only=True) as ledger:
        if agreed.certificate is not None:
            total = ledger.summary()
            assert total["spent"]["epsilon"] <= total["promised"]["epsilon"] <= total["epsilon"]
        planned = {i for i, event in enumerate(agreed.plan(c)) if event is not None}
        assert set(charges_of(made, c)) == planned
    check_outbox_is_empty(made, agreed, c)


def check_outbox_is_empty(made: Federation, agreed: Agreement, c: int) -> None:
    with open_ledger(made.folder / f"client{c}" / "ledger.sqlite", read_only=True) as ledger:
        assert not ledger.unacknowledged(agreed.federation)
