"""Retry and back-off: how long to wait before the next attempt to reach a server, and when to give up."""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import grpc.aio

from crescendo import system
from crescendo.errors import UsageError
from crescendo.logs import Log
from crescendo.network.transport.channels import Endpoint, StreamBroken

BROKEN = (StreamBroken, grpc.aio.AioRpcError, asyncio.InvalidStateError)  # the errors of a broken stream


class Unreachable(UsageError):
    """The client could not reach the server for as long as the back-off allows."""


class Unrecoverable(Unreachable):
    """The peer at the address is not the intended server, or speaks another protocol: another attempt would not help."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"cannot connect to the server at {address}: {why}")


@dataclass(frozen=True)
class Backoff:
    """Seconds before the next attempt: doubled each time from ``first`` up to ``most``, and randomized by up to half.

    After ``give_up`` seconds without the server the client makes one last attempt. Servers come back after days, so by default
    a client never gives up.
    """

    first: float = 0.2
    most: float = 10.0
    give_up: float = math.inf

    def __post_init__(self) -> None:
        if not self.give_up >= 0:
            raise UsageError(f"--give-up-after must be a number of seconds from 0 on, got {self.give_up:g}")

    def waits(self) -> Iterator[float]:
        wait = self.first
        while True:
            yield wait * system.uniform(0.5, 1.5)
            wait = min(self.most, 2 * wait)


class Retries:
    """Attempts to reach the server since it was last reached."""

    def __init__(self, backoff: Backoff, endpoint: Endpoint, log: Log) -> None:
        self._backoff, self._endpoint, self._log = backoff, endpoint, log
        self.reached()

    def reached(self) -> None:
        """Note that the server was reached, and start the back-off from the beginning."""
        self._waits, self._since = self._backoff.waits(), system.monotonic()

    async def wait(self, error: Exception, lost: Callable[..., None], stop: asyncio.Event) -> bool:
        """Log a failed attempt, by ``lost`` unless the server sent the client away, and wait before the next one.

        Raise `Unreachable` when it is time to give up. Return True if ``stop`` was set meanwhile.
        """
        without, reason = system.monotonic() - self._since, self._endpoint.why(error)
        left = self._backoff.give_up - without
        if left <= 0:
            raise Unreachable(
                f"gave up after {without:.0f} s without the server at {self._endpoint.address} ({reason}); what is done is kept, "
                f"so the same command goes on"
            )
        wait = min(next(self._waits), left)
        facts = {
            "server": self._endpoint.address,
            "reason": reason,
            "without_it": round(without, 1),
            "again_in": round(wait, 2),
        }
        turned_away = isinstance(error, StreamBroken) and error.turned_away
        self._log("sent_away", **facts) if turned_away else lost(**facts)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), wait)
        return stop.is_set()
