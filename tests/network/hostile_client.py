"""A client that knows the protocol and says what it likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import numpy as np

from crescendo.core.messages import Settled
from crescendo.core.vectors import encode
from crescendo.federation.agreement import Agreement
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.codec import LARGEST
from crescendo.network.protocol.wire_messages import TO_SERVER, Hello, UpdatePart, VoidRound
from tests.network.raw_streams import BROKEN, End, Raw, RawStream, check_clear, check_end


@dataclass
class HostileClient:
    """A named client that knows the protocol, joins again after every refusal, and says what it likes."""

    channel: grpc.aio.Channel
    agreed: Agreement
    me: int
    token: str = ""
    line: RawStream | None = None
    settled: Settled = field(default_factory=lambda: Settled(0))
    k: int = 0
    epoch: int = 0
    joins: int = 0
    target: int | None = None  # the round that its updates are about; None: the first open one
    _barriers: int = 0

    @property
    def instance(self) -> str:
        return f"{self.me:032x}"

    def hello(self, **changes: Any) -> Hello:
        agreed = self.agreed
        said = {"name": agreed.names[self.me], "instance": self.instance, "federation": agreed.federation}
        return Hello(**{**said, "digest": agreed.digest, "last": self.last, "token": self.token, **changes})

    @property
    def last(self) -> int:
        return self.settled.end - 1

    @property
    def round(self) -> int:
        """The first round that is not settled and in which it has a share."""
        i = self.settled.below
        while i in self.settled or not self.agreed.terms.share(i, self.me):
            i += 1
            if i >= self.agreed.terms.rounds:
                return self.agreed.terms.rounds - 1
        return i

    @property
    def aim(self) -> int:
        """The round that its updates are about, unless it is told another."""
        return self.round if self.target is None else self.target

    async def join(self, **changes: Any) -> pb.ToClient | End:
        """Open a stream; the answer. It may have forgotten its last rounds, so it tries a few."""
        answer: pb.ToClient | End = End(grpc.StatusCode.OK, "")
        for ahead in range(4):
            if self.line is not None:
                self.line.cut()
            self.line, self.joins = RawStream(self.channel), self.joins + 1
            await self.line.say(TO_SERVER.encode(self.hello(**{"last": self.last + ahead, **changes})))
            answer = await self.hear()
            if not (isinstance(answer, pb.ToClient) and "older than" in answer.refusal.reason):
                break
        return answer

    async def hear(self) -> pb.ToClient | End:
        assert self.line is not None
        answer = await self.line.hear()
        if isinstance(answer, pb.ToClient):
            self._learn(answer)
        return answer

    def _learn(self, answer: pb.ToClient) -> None:
        kind = answer.WhichOneof("message")
        if kind == "welcome":
            self.epoch, self.settled = answer.welcome.epoch, _settled(answer.welcome.received)
        elif kind == "ack":
            self.epoch, self.settled = answer.ack.epoch, _settled(answer.ack.yours)
        elif kind == "broadcast":
            self.epoch, self.k = answer.broadcast.epoch, answer.broadcast.vector.about
            if answer.broadcast.HasField("yours"):
                self.settled = _settled(answer.broadcast.yours)
        elif kind == "refusal":
            check_clear(answer.refusal.reason)

    async def fire(self, *messages: Raw) -> list[pb.ToClient | End]:
        """Send messages, and all that comes until the server has dealt with them: refusals, or the end of the stream.

        What the server said before it closed the stream is lost if gRPC, on this side, was just writing: then once more.
        """
        for _ in range(5):
            heard = await self._fire_once(messages)
            if heard != [BROKEN]:
                break
        return heard

    async def _fire_once(self, messages: tuple[Raw, ...]) -> list[pb.ToClient | End]:
        if self.line is None or self.line.end is not None:
            answer = await self.join()
            assert isinstance(answer, pb.ToClient) and answer.HasField("welcome"), answer
        assert self.line is not None
        self._barriers += 1
        barrier = LARGEST - self._barriers  # a round that cannot be: the server's no to it comes after all others
        await self.line.say(*messages, TO_SERVER.encode(VoidRound(barrier, self.agreed.federation, self.agreed.digest)))
        heard: list[pb.ToClient | End] = []
        while True:
            answer = await self.hear()
            if isinstance(answer, End):
                check_end(answer, list(messages))
                return [*heard, answer]
            if answer.HasField("refusal"):
                if answer.refusal.HasField("round") and answer.refusal.round == barrier:
                    return heard
                heard.append(answer)

    async def break_rules(self, most: int, message: Raw = b"") -> int:
        """Send broken messages, each on a stream of its own, until it is told that these are too many; how many it took."""
        for broken in range(most):
            answer = await self.join()
            assert isinstance(answer, pb.ToClient), answer
            if answer.HasField("refusal"):
                assert "too many" in answer.refusal.reason, answer
                return broken
            assert self.line is not None
            await self.line.say(message)
            while not isinstance(await self.hear(), End):
                pass
        return most

    def update(self, round: int | None = None, value: float = 1e-4, **changes: Any) -> list[pb.ToServer]:
        """The messages of an update that a sound client could send."""
        agreed, i = self.agreed, self.aim if round is None else round
        low, high = agreed.terms.block(i, agreed.objective.size)
        data = changes.pop("data", None) or encode(np.full(high - low, value), agreed.wire)
        about = {"federation": agreed.federation, "digest": agreed.digest, **changes}
        return list(map(TO_SERVER.encode, UpdatePart.split(i, data, agreed.wire, **about)))

    async def behave(self) -> None:
        """Send a sound update of the next round, and wait until everybody's updates have completed that round.

        A sound client knows which of its rounds are settled (after mischief: `join` again), and does not finish a round before
        the others are near it.
        """
        if self.line is None or self.line.end is not None:
            await self.join()
        i = self.round
        assert i not in self.settled, "no round is left"
        while self.agreed.terms.furthest(self.k) < i:
            answer = await self.hear()
            assert isinstance(answer, pb.ToClient), answer
        heard = await self.fire(*self.update(i))
        assert heard == [], heard
        while self.k <= i:
            answer = await self.hear()
            assert isinstance(answer, pb.ToClient), answer

    async def train(self) -> None:
        """Behave to the end of the run."""
        if self.line is None or self.line.end is not None:
            await self.join()
        while self.settled.below < self.agreed.terms.rounds:
            await self.behave()


def _settled(settled: pb.Settled) -> Settled:
    ranges = zip(settled.ranges[::2], settled.ranges[1::2], strict=True)
    return Settled(settled.below, tuple(ranges))
