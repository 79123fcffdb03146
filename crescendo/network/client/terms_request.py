"""Terms request: before it joins, a client asks the server for its terms, and may decline them."""

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
    """The server's terms, and the stream that they came on; the client has not joined yet."""

    stream: OutgoingStream
    welcome: Welcome

    async def decline(self, reason: str) -> None:
        """Decline the terms, and send the server the reason."""
        await self.stream.decline(Goodbye(reason))


@asynccontextmanager
async def ask(
    endpoint: Endpoint, name: str, stop: asyncio.Event, backoff: Backoff, log: Log = quiet
) -> AsyncIterator[_TermsOffer | None]:
    """Yield the server's terms, as soon as it can be reached; None if stopped before. Raise `Unreachable` when giving up.

    The client draws a new instance id for this request: a server learns the permanent one only from clients that join.

    An error that no further attempt can fix, such as a wrong certificate, ends the client here: no server has answered yet, so
    the command is probably wrong. After an answer the operator may be at fault and fix it, so `take_part` keeps trying.
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
    """Raise Refused if client and server have no protocol in common."""
    try:
        OURS.speak_with(welcome.version, "this client", "the server")
    except PeerError as error:
        raise Refused(str(error)) from None


def check_refusal(answer: Any, log: Log) -> None:
    """Handle a refusal. A final one ends the client. Any other one without a round ends the stream; the client may come back."""
    if not isinstance(answer, Refusal):
        raise StreamBroken("the server spoke out of turn")
    if answer.round is None and not answer.final:
        raise StreamBroken(answer.reason, turned_away=True)
    log("refused", reason=answer.reason, final=answer.final, round=answer.round)
    if answer.final:
        raise Refused(f"the server refuses: {answer.reason}")


async def log_silence(log: Log, server: str, answered: Callable[[], bool] = lambda: False) -> None:
    """Log a missing answer to the hello, after 30 seconds and then each time the silence has doubled, until it comes."""
    step, waited = SILENCE, 0.0
    while True:
        await asyncio.sleep(step)
        step = waited = waited + step
        if answered():
            return
        log("unanswered", server=server, seconds=round(waited))


async def _until(reading: Any, stop: asyncio.Event) -> Any:
    """Return the message that was read; None if ``stop`` comes first."""
    async with background(reading, stop.wait()) as tasks:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
