"""Admitted streams: those whose peer has proved who it is, looked at again when keys, tokens or revocations change."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crescendo.errors import CrescendoError, PeerError
from crescendo.logs import Log
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport.pending_streams import TryLater
from crescendo.network.transport.security.authenticator import Admit, Authenticator

POLL = 1.0  # seconds between two looks at the files

Check = Callable[[], None]  # PeerError if the peer would not be let in any more
End = Callable[[Refusal], None]


class AdmittedStreams:
    """The open streams of a server or an aggregator. `watch` ends those that would not be let in any more."""

    def __init__(self, admit: Admit, log: Log) -> None:
        self._admit, self._log = admit, log
        self._open: dict[object, tuple[Check, End]] = {}

    @contextmanager
    def counted(self, check: Check, end: End) -> Iterator[None]:
        """Count a stream as open. It is checked once more: since its hello the files may have changed."""
        if (error := _refused(check)) is not None:
            raise error
        stream = object()
        self._open[stream] = check, end
        try:
            yield
        finally:
            del self._open[stream]

    async def watch(self) -> None:
        """For ever: when the files have changed, check every open stream."""
        if not isinstance(self._admit, Authenticator):
            await asyncio.Event().wait()  # every peer is let in, whatever it shows
            return
        seen = self._admit.stamp()
        while True:
            await asyncio.sleep(POLL)
            if (found := self._admit.stamp()) != seen:
                seen = found
                await self.check_all(self._admit)

    async def check_all(self, admit: Authenticator) -> None:
        """Check every open stream. The refusal is not final: the peer may have a new certificate or token to come back with."""
        try:
            admit.refresh()
        except CrescendoError as error:
            self._log("keys_unusable", reason=str(error))
        ended = 0
        for stream, (check, end) in list(self._open.items()):
            await asyncio.sleep(0)  # there may be thousands
            if stream in self._open and (wrong := _refused(check)) is not None:
                end(Refusal(str(wrong)))
                ended += 1
        self._log("keys_changed", folder=str(admit.folder), ended=ended)


def _refused(check: Check) -> PeerError | None:
    """Why a peer would not be let in; that a file cannot be used is no peer's fault."""
    try:
        check()
    except PeerError as error:
        return None if isinstance(error, TryLater) else error
    except CrescendoError:
        return None
    return None
