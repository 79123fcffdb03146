"""A server's service without sockets or time: a test says which messages come, in which batches, and by which way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Settled, Update
from crescendo.core.vectors import encode
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.network.protocol.wire_messages import Hello, VoidRound, Welcome
from crescendo.network.server.service import Message, Service, Submission
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.journal.journal_entries import Absent, Received, Summed
from tests.conformance.cases import case


def long_run(rounds: int, ahead: int, features: int = 4, clients: int = 2, **changes: Any) -> dict[str, Any]:
    """Constant rounds, so that every client has a share in each; 40,000 features make an update of more than 256 kB."""
    schedule = {"rounds": rounds, "sizes": {"kind": "constant", "size": 10}, "wait": {"rounds": ahead}}
    return case(clients={"count": clients}, serve={"features": features}, schedule={**schedule, **changes})


class ServicePlay:
    """A service, its log, and what each batch was answered."""

    def __init__(self, agreed: Agreement, durable: DurableServer) -> None:
        self.agreed, self.durable, self.log = agreed, durable, list[dict[str, Any]]()
        self.service = Service(durable, agreed, lambda event, **facts: self.log.append({"event": event, **facts}))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [facts for facts in self.log if facts["event"] == name]

    def batch(self, *messages: tuple[int, Message]) -> list[Submission]:
        """These messages, each of a client, are written with one sync."""
        batch = [Submission(c, message) for c, message in messages]
        self.service.process(batch, [])
        return batch

    def update(self, i: int, c: int) -> Received:
        """Round i of client c; no two of a run are the same."""
        return Received(i, c, self.agreed.wire, encode(self.delta(i, c), self.agreed.wire))

    def delta(self, i: int, c: int) -> Any:
        return np.full(self.agreed.numbers(i), (1 + i) / 2.0**10 + c)

    def hello(self, c: int, last: int = -1, **seen: Any) -> Hello:
        return Hello(
            self.agreed.names[c], f"{c:032x}", self.agreed.federation, self.agreed.digest, last, version=None, **seen
        )

    def joins(self, c: int, last: int = -1, **seen: Any) -> Welcome:
        (joined,) = self.batch((c, self.hello(c, last, **seen)))
        (welcome,) = joined.answers
        assert isinstance(welcome, Welcome), welcome
        return welcome

    def sends(self, c: int, rounds: Iterable[int], together: int = 1) -> None:
        """Client c sends these rounds; ``together`` of them come while one batch is written."""
        waiting = list(rounds)
        while waiting:
            now, waiting = waiting[:together], waiting[together:]
            self.batch(*((c, self.update(i, c)) for i in now))

    def voids(self, c: int, rounds: Iterable[int]) -> None:
        self.batch(*((c, VoidRound(i, self.agreed.federation, self.agreed.digest)) for i in rounds))

    def is_absent(self, c: int) -> None:
        self.batch((c, Absent(c)))

    def applied(self, c: int, rounds: Iterable[int]) -> list[int]:
        """Those of the rounds that are settled and not void."""
        settled = self.durable.settled(c)
        return [i for i in rounds if i in settled and not self.durable.is_void(i, c)]

    def void(self, c: int, rounds: Iterable[int]) -> list[int]:
        return [i for i in rounds if self.durable.is_void(i, c)]


class BelowANode:
    """The clients below one aggregator: what they send goes up in sums, and the server's word comes down."""

    def __init__(self, play: ServicePlay, most: int = 3) -> None:
        self.play, self.most = play, most
        self.node = Aggregator(play.agreed.terms, play.agreed.size)
        for c in range(len(play.agreed.names)):
            self.node.join(c, [c])

    def sends(self, sent: dict[int, Iterable[int]]) -> None:
        """All of it is handed in, ``most`` rounds of each client at a time, and each sum is answered before the next."""
        waiting = {c: list(rounds) for c, rounds in sent.items()}
        while any(waiting.values()):
            for c, rounds in waiting.items():
                for i in rounds[: self.most]:
                    self.node.receive(c, Update(i, c, self.play.delta(i, c)))
                del rounds[: self.most]
            self.pass_up()

    def pass_up(self) -> None:
        play, agreed = self.play, self.play.agreed
        while (total := self.node.pack()) is not None:
            wire = agreed.wire if len(total.pairs) == 1 else "float64"
            [answered] = play.batch((-1, Summed(total.pairs, wire, encode(total.delta, wire))))
            assert answered.taken, answered.answers
            self.node.hear(play.durable.word(range(len(agreed.names)), model=False))


@contextmanager
def played(folder: Path, raw: dict[str, Any]) -> Iterator[ServicePlay]:
    config = read(raw)
    agreed = with_copy(build_terms(terms_text(config)), servers_copy(config.objective.kind))
    with DurableServer(folder, agreed.text, lambda text: agreed.terms, agreed.initial()) as durable:
        yield ServicePlay(agreed, durable)


def away(play: ServicePlay, until: int, sent: int) -> Welcome:
    """Client 0 has ``sent`` rounds done and unsent when it is cut off; client 1 goes on alone to round ``until``."""
    for c in (0, 1):
        play.joins(c)
    play.is_absent(0)
    play.sends(1, range(until), together=100)
    assert play.durable.k == until and play.durable.settled(0) == Settled(0)
    return play.joins(0, last=sent - 1)
