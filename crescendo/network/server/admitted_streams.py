"""Admitted streams: streams of authenticated peers. They are checked again when keys, tokens or revocations change, and ended
when the peer's certificate expires: TLS checks it only at the start of a connection, and a stream may last for months.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crescendo import system
from crescendo.errors import CrescendoError, PeerError
from crescendo.logs import Log
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.transport.pending_streams import TryLater
from crescendo.network.transport.security.authenticator import Admit, Authenticator
from crescendo.network.transport.security.expiry import expiry_in
from crescendo.network.transport.security.party_files import CERTIFICATE

POLL = 1.0  # seconds between two checks of the files
DAY = 86_400.0
WARNING = 7 * DAY  # seconds before a certificate expires; from then on it is logged once a day
EXPIRED = Refusal("the certificate that was shown has expired; come back with a new one, which the operator signs")

Check = Callable[[], None]  # PeerError if the peer would no longer be admitted
End = Callable[[Refusal], None]


OWN = "this server or aggregator"


@dataclass(slots=True)
class _Open:
    check: Check
    end: End
    party: str
    expires: float


class AdmittedStreams:
    """The open streams of a server or an aggregator. `watch` ends those that would no longer be admitted."""

    def __init__(self, admit: Admit, log: Log) -> None:
        self._admit, self._log = admit, log
        self._open: dict[object, _Open] = {}
        self._warned: dict[str, float] = {}  # party -> when the last warning about its certificate was logged

    @contextmanager
    def counted(self, check: Check, end: End, party: str = "", expires: float = math.inf) -> Iterator[None]:
        """Count a stream of ``party`` as open. This checks it once more, as the files may have changed since its hello.

        ``expires`` is when its certificate expires, in seconds since 1970.
        """
        if (error := _refused(check)) is not None:
            raise error
        stream = object()
        self._open[stream] = _Open(check, end, party, expires)
        try:
            yield
        finally:
            del self._open[stream]

    async def watch(self) -> None:
        """Check every open stream whenever the files change, until cancelled."""
        if not isinstance(self._admit, Authenticator):
            await asyncio.Event().wait()  # every peer is admitted
            return
        seen = self._admit.stamp()
        while True:
            self.check_expiry(system.time(), self._admit.folder)
            await asyncio.sleep(POLL)
            if (found := self._admit.stamp()) != seen:
                seen = found
                await self.check_all(self._admit)

    def check_expiry(self, now: float, folder: Path | None) -> None:
        """End streams whose certificate has expired, and warn days before. The one in ``folder`` only causes warnings."""
        for stream in self._open.values():
            if stream.expires <= now:
                stream.expires = math.inf  # end it only once
                self._log("certificate_expired", party=stream.party)
                stream.end(EXPIRED)
            elif stream.expires <= now + WARNING:
                self._warn(stream.party, stream.expires, now)
        if folder is not None and now >= self._warned.get(OWN, -math.inf) + DAY:
            self._warned[OWN] = now
            if (expires := expiry_in(folder / CERTIFICATE)) <= now + WARNING:
                self._log("certificate_expires", party=OWN, days=_days(expires - now))

    def _warn(self, party: str, expires: float, now: float) -> None:
        if now >= self._warned.get(party, -math.inf) + DAY:
            self._warned[party] = now
            self._log("certificate_expires", party=party, days=_days(expires - now))

    async def check_all(self, admit: Authenticator) -> None:
        """Check every open stream. The refusal is not final: the peer may have a new certificate or token to come back with."""
        try:
            admit.refresh()
        except CrescendoError as error:
            self._log("keys_unusable", reason=str(error))
        ended = 0
        for stream, it in list(self._open.items()):
            await asyncio.sleep(0)  # there may be thousands
            if stream in self._open and (wrong := _refused(it.check)) is not None:
                it.end(Refusal(str(wrong)))
                ended += 1
        self._log("keys_changed", folder=str(admit.folder), ended=ended)


def _days(seconds: float) -> float:
    return round(max(0.0, seconds) / DAY, 1)


def _refused(check: Check) -> PeerError | None:
    """Return why a peer would not be admitted. An unusable file is not the peer's fault, and no reason."""
    try:
        check()
    except PeerError as error:
        return None if isinstance(error, TryLater) else error
    except CrescendoError:
        return None
    return None
