"""Members that do not behave: each speaks the protocol as far as it gets something out of it, for as long as the run lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from crescendo.core.vectors import encode
from crescendo.network.protocol.wire_messages import (
    BroadcastPart,
    FromClient,
    Hello,
    Ping,
    Pong,
    UpdatePart,
    VoidRound,
    Welcome,
)
from crescendo.network.transport.channels import Endpoint, OutgoingStream, StreamBroken
from crescendo.network.transport.retry import BROKEN

if TYPE_CHECKING:
    from tests.network.virtual.federation import Federation
    from tests.network.virtual.machine import Machine

HELLO_EVERY = 30.0  # seconds


class _Member:
    """One stream after the other."""

    def __init__(self, federation: Federation, machine: Machine, c: int) -> None:
        self.federation, self.machine, self.c = federation, machine, c
        self.agreed = federation.agreed

    async def join(self, stream: OutgoingStream) -> Welcome:
        answer = await stream.read()
        if not isinstance(answer, Welcome):
            raise StreamBroken("refused")
        return answer

    def hello(self) -> Hello:
        agreed = self.agreed
        return Hello(agreed.names[self.c], f"{self.c:032x}", agreed.federation, agreed.digest)

    async def send(self, stream: OutgoingStream, round: int, number: float) -> None:
        agreed = self.agreed
        data = encode(agreed.initial()[: agreed.numbers(round)] * 0 + number, agreed.wire)
        for part in UpdatePart.split(round, data, agreed.wire, agreed.federation, agreed.digest):
            await stream.write(part)

    async def say(self, stream: OutgoingStream, message: FromClient) -> None:
        await stream.write(message)


async def _hellos(member: _Member, stream: OutgoingStream) -> None:
    """Says hello twice a minute, and nothing else."""
    await member.join(stream)


async def _silent(member: _Member, stream: OutgoingStream) -> None:
    """Joins and reads nothing."""
    await member.join(stream)
    await asyncio.sleep(20 * HELLO_EVERY)


async def _idle(member: _Member, stream: OutgoingStream) -> None:
    """Answers every ping and never sends an update."""
    await member.join(stream)
    while True:
        message = await stream.read()
        if isinstance(message, Ping):
            await member.say(stream, Pong(message.number))


async def _repeats(member: _Member, stream: OutgoingStream) -> None:
    """Sends each update twice, and now and then other bytes for the same pair."""
    welcome = await member.join(stream)
    k = welcome.start
    while True:
        for number in (0.125, 0.125, 0.25 if member.machine.rng.random() < 0.1 else 0.125):
            if k < member.agreed.terms.rounds:
                await member.send(stream, k, number + k)
        message = await stream.read()
        if isinstance(message, Ping):
            await member.say(stream, Pong(message.number))
        elif isinstance(message, BroadcastPart):
            k = message.vector.about


async def _nonsense(member: _Member, stream: OutgoingStream) -> None:
    """Speaks of rounds that cannot be, declares rounds void and sends them all the same."""
    welcome = await member.join(stream)
    rng, agreed = member.machine.rng, member.agreed
    for _ in range(40):
        round = rng.randrange(agreed.terms.rounds)
        match rng.randrange(3):
            case 0:
                await member.say(stream, VoidRound(round, agreed.federation, agreed.digest))
            case 1:
                await member.send(stream, round, 0.5)
            case _:
                await member.send(stream, min(welcome.start, agreed.terms.rounds - 1), 1e300)
    await asyncio.sleep(HELLO_EVERY)


BEHAVIOURS: dict[str, Callable[[_Member, OutgoingStream], Awaitable[None]]] = {
    "hellos": _hellos,
    "silent": _silent,
    "idle": _idle,
    "repeats": _repeats,
    "nonsense": _nonsense,
}


async def misbehave(federation: Federation, machine: Machine, c: int, how: str) -> Any:
    """The program of such a member."""
    member, endpoint = _Member(federation, machine, c), Endpoint(federation.parents[machine].name)
    while True:
        try:
            async with endpoint.stream(member.hello()) as stream:
                await BEHAVIOURS[how](member, stream)
        except BROKEN:
            pass
        await asyncio.sleep(machine.rng.uniform(0.2, HELLO_EVERY))
