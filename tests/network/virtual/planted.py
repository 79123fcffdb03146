"""Planted bugs: each changes the package so that something that was promised no longer holds. The simulation has to find them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import Settled
from crescendo.core.server import Server
from crescendo.core.vectors import decode, encode
from crescendo.errors import PeerError
from crescendo.network.client.participant import Participant
from crescendo.network.protocol import resumption
from crescendo.network.protocol.codec import Codec
from crescendo.network.server.liveness import Liveness
from crescendo.network.server.service import NEVER_CAME, Service
from crescendo.network.server.waiting.returns import Returns
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.segment_file import SegmentFile
from crescendo.storage.journal.server_state import ServerState
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.outbox import Outbox, Release

Patch = pytest.MonkeyPatch
FEW = 256  # rounds: the limits that findings 1 and 4 were about, so small that a run of some hundred rounds meets them


def plant(name: str, patch: Patch | None = None) -> None:
    """Plant the bug of that name here, or ``module:function`` of anybody's, which is called with a `pytest.MonkeyPatch` or with
    nothing."""
    module, _, function = name.rpartition(":")
    bug: Any = getattr(importlib.import_module(module), function) if module else BUGS[name]
    bug(patch or pytest.MonkeyPatch()) if inspect.signature(bug).parameters else bug()


# -- findings of the review, undone ------------------------------------------------------------------------------------------


def absences_overtake(patch: Patch) -> None:
    """Rounds that absence voided count as rounds that overtook an open one."""

    def close_gap(service: Service, c: int) -> list[int]:
        settled = service.durable.settled(c)
        overtaking = sum(stop - first for first, stop in settled.beyond)
        if overtaking <= FEW:
            return []
        first = settled.beyond[0][0]
        return [i for i in range(settled.below, first) if service._make_void(i, c, NEVER_CAME)]

    patch.setattr(Service, "_close_gap", close_gap)


def hello_resets_clock(patch: Patch) -> None:
    """Every hello begins the clock of the round anew, and nobody is put on probation."""
    joined = Liveness.on_joined

    def on_joined(liveness: Liveness, c: int) -> None:
        joined(liveness, c)
        liveness._holds.begin(c, liveness._holds._updated)
        liveness._holds._waited[c] = 0.0

    patch.setattr(Liveness, "on_joined", on_joined)
    patch.setattr(Returns, "on_probation", lambda returns, c: False)


def rounds_one_by_one(patch: Patch) -> None:
    """A set of rounds is read one by one, and one of more than some is refused."""
    decode_message = Codec.decode

    def limited(codec: Codec, raw: Any) -> Any:
        found = decode_message(codec, raw)
        for name in ("received", "yours", "settled", "acknowledged"):
            rounds = getattr(found, name, None)
            if isinstance(rounds, Settled) and rounds.rounds - rounds.below > FEW:
                raise PeerError("too many rounds overtook")
        return found

    patch.setattr(Codec, "decode", limited)


# -- the disk ----------------------------------------------------------------------------------------------------------------


def lost_sync(patch: Patch) -> None:
    """The journal is not synced."""
    patch.setattr(SegmentFile, "sync", lambda file: None)


def ack_before_disk(patch: Patch) -> None:
    """What is written to the journal reaches the disk with the next batch."""
    write, waiting = Journal.write, dict[Journal, Any]()

    def late(journal: Journal, batch: Any) -> None:
        before, waiting[journal] = waiting.get(journal, []), list(batch)
        write(journal, before)

    patch.setattr(Journal, "write", late)


def sent_before_charged(patch: Patch) -> None:
    """A release is charged when the next one is made."""
    charge, waiting = Ledger._charge, dict[Ledger, Any]()

    def late(ledger: Ledger, *about: Any) -> None:
        before = waiting.pop(ledger, None)
        if before is not None:
            charge(ledger, *before)
        waiting[ledger] = about

    patch.setattr(Ledger, "_charge", late)


def snapshot_without_void(patch: Patch) -> None:
    """A snapshot forgets the last round that each client sent."""
    export = Server.export

    def forgetful(server: Server) -> dict[str, Any]:
        found = export(server)
        return {name: np.full_like(value, -1) if name == "last" else value for name, value in found.items()}

    patch.setattr(Server, "export", forgetful)


# -- bytes -------------------------------------------------------------------------------------------------------------------


def fresh_noise(patch: Patch) -> None:
    """What is sent again has other noise."""
    to_send = Participant.to_send

    def noisy(one: Participant, received: Settled) -> tuple[list[Release], list[int]]:
        releases, lost = to_send(one, received)
        wire, agreed = one.agreement.wire, one.agreement
        again = []
        for round, data in releases:
            assert data is not None
            again.append(Release(round, encode(decode(data, wire, agreed.numbers(round)) * 1.5, wire)))
        return again, lost

    patch.setattr(Participant, "to_send", noisy)


def resumes_anything(patch: Patch) -> None:
    """A vector goes on where the receiver says, whatever it holds."""

    def resumed(data: Any, held: resumption.Held) -> resumption.Resumed:
        known = 0 < held.length < len(data) and held.length % resumption.SMALL_PART == 0
        return resumption.Resumed(held.length, hashlib.sha256(data).digest()) if known else resumption.Resumed()

    for module in ("crescendo.network.transport.interrupted_streams", "crescendo.network.client.client_session"):
        patch.setattr(importlib.import_module(module), "resumed", resumed)
    patch.setattr(resumption.Unfinished, "check_whole", lambda vector: None)


def outbox_dropped_early(patch: Patch) -> None:
    """Bytes of a round are dropped when a later round of the client is settled."""
    drop = Outbox.drop

    def early(outbox: Outbox, federation: str, settled: Settled) -> None:
        drop(outbox, federation, Settled(settled.end))

    patch.setattr(Outbox, "drop", early)


# -- rounds, epochs and pairs ------------------------------------------------------------------------------------------------


def epoch_stays(patch: Patch) -> None:
    """A server that lacks what a client has seen begins no new epoch."""
    patch.setattr(ServerState, "epoch_after", lambda *about: None)


def one_round_further(patch: Patch) -> None:
    """A client that comes back goes on one round later than it should."""
    start_of = DurableServer.start_of
    patch.setattr(DurableServer, "start_of", lambda durable, c: start_of(durable, c) + 1)


def round_too_early(patch: Patch) -> None:
    """A round is complete when one client is still missing."""
    count = Server._count_open

    def fewer(server: Server) -> int:
        found = count(server)
        return found - 1 if found > 1 else found

    patch.setattr(Server, "_count_open", fewer)


def applied_again(patch: Patch) -> None:
    """An update that comes again within the due round is applied again."""
    settled = Server._settled
    patch.setattr(Server, "_settled", lambda server, i, c: settled(server, i, c) and i != server.k)


def released_during_hello(patch: Patch) -> None:
    """Rounds are released between a hello and its welcome."""

    def introduce(one: Participant) -> int:
        return one.last

    patch.setattr(Participant, "introduce", introduce)


def never_held_up(patch: Patch) -> None:
    """A round waits for whoever is heard, for as long as that takes."""

    async def no_holds(liveness: Liveness) -> None:
        pass

    patch.setattr(Liveness, "_check_holds", no_holds)


BUGS: dict[str, Callable[[Patch], None]] = {
    bug.__name__: bug
    for bug in (
        absences_overtake,
        hello_resets_clock,
        rounds_one_by_one,
        lost_sync,
        ack_before_disk,
        sent_before_charged,
        snapshot_without_void,
        fresh_noise,
        resumes_anything,
        outbox_dropped_early,
        epoch_stays,
        one_round_further,
        round_too_early,
        applied_again,
        released_during_hello,
        never_held_up,
    )
}
