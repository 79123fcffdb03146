"""Terms request: a client asks the server for its terms, before it joins, and may decline them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from crescendo import system
from crescendo.errors import PeerError, Refused
from crescendo.logs import Log, quiet
from crescendo.network.protocol.versions import OURS
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, Welcome
from crescendo.network.transport.background import background
from crescendo.network.transport.channels import Endpoint, OutgoingStream, StreamBroken
from crescendo.network.transport.error_translation import is_unrecoverable
from crescendo.network.transport.retry import BROKEN, Backoff, Retries, Unrecoverable

SILENCE = 30.0  # seconds without an answer, before the first line about it


class _TermsOffer(NamedTuple):
    """The terms that the server has sent, and the stream that it sent them on; the client has not joined yet."""

    stream: OutgoingStream
    welcome: Welcome

    async def decline(self, reason: str) -> None:
        """Tell the server why its terms are not accepted."""
        await self.stream.decline(Goodbye(reason))


@asynccontextmanager
async def ask(
    endpoint: Endpoint, name: str, stop: asyncio.Event, backoff: Backoff, log: Log = quiet
) -> AsyncIterator[_TermsOffer | None]:
    """The server's terms, as soon as it can be reached; None if stopped before, `Unreachable` if given up.

    The client draws an instance id for this request alone: a server learns the lasting one only of clients that join.

    What no attempt can mend, such as a wrong certificate, ends here, as a mistake in the command: no server has answered yet.
    Once one has, the mistake may be the operator's, who mends it, so `take_part` goes on trying.
    """
    retries = Retries(backoff, endpoint, log)
    while True:
        try:
            hello = Hello(name, system.urandom(16).hex(), token=endpoint.token, version=OURS)
            async with endpoint.stream(hello) as stream:
                async with background(log_silence(log, endpoint.address)):
                    answer = await _until(stream.read(), stop)
                if answer is None or isinstance(answer, Welcome):
                    yield None if answer is None else _TermsOffer(stream, answer)
                    return
                check_refusal(answer, log)
                raise StreamBroken("the server spoke out of turn")
        except BROKEN as error:
            if is_unrecoverable(error):
                raise Unrecoverable(endpoint.address, endpoint.why(error)) from None
            if await retries.wait(error, lambda **facts: log("unreachable", **facts), stop):
                yield None
                return


def check_version(welcome: Welcome) -> None:
    """Refused if the server speaks no protocol that this client does."""
    try:
        OURS.speak_with(welcome.version, "this client", "the server")
    except PeerError as error:
        raise Refused(str(error)) from None


def check_refusal(answer: Any, log: Log) -> None:
    """A refusal ends the client if it is final; one that is about no round ends the stream, and the client may come back."""
    if not isinstance(answer, Refusal):
        raise StreamBroken("the server spoke out of turn")
    if answer.round is None and not answer.final:
        raise StreamBroken(answer.reason, turned_away=True)
    log("refused", reason=answer.reason, final=answer.final, round=answer.round)
    if answer.final:
        raise Refused(f"the server refuses: {answer.reason}")


async def log_silence(log: Log, server: str, answered: Callable[[], bool] = lambda: False) -> None:
    """Say that a hello is not answered, after 30 seconds and then each time it has been twice as long, until it is."""
    step, waited = SILENCE, 0.0
    while True:
        await asyncio.sleep(step)
        step = waited = waited + step
        if answered():
            return
        log("unanswered", server=server, seconds=round(waited))


async def _until(reading: Any, stop: asyncio.Event) -> Any:
    """What is read, None if ``stop`` comes first."""
    async with background(reading, stop.wait()) as tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
