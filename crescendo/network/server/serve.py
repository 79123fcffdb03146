"""`serve`: serves a federation on the network, from an agreement and a state folder, until its last round."""

import asyncio
import json
import math
import socket
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crescendo.core.arrays import Floats
from crescendo.errors import UsageError
from crescendo.federation.agreement import Agreement
from crescendo.federation.last_model import LastModel
from crescendo.logs import Log, quiet
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.server.health import HealthPage
from crescendo.network.server.history_check import HistoryCheck
from crescendo.network.server.liveness import LivenessLimits
from crescendo.network.server.service import Service
from crescendo.network.transport.background import background
from crescendo.network.transport.descriptors import raise_limit
from crescendo.network.transport.security.address import Address
from crescendo.network.transport.security.authenticator import Admit, everybody
from crescendo.network.transport.shutdown import ShutdownRequest
from crescendo.objectives.score import Measured
from crescendo.storage.journal.durable_server import DurableServer
from crescendo.storage.upkeep.disk_room import DiskRoom, usual_reserve
from crescendo.whole_files import make_folder, whole_file

# Confirmations of the end are not kept on disk: a client killed before it could note the end must find a server again.
NOT_CONFIRMED = "these clients have not confirmed the end"
OVER_BEFORE = "it was over before this start, and these clients may have heard of it then; that is not kept"
WHO_WAITS = "if one of them still waits for the server, start it again; one that has its last model needs nothing"


@dataclass(frozen=True)
class Listening:
    """Where and how to listen. Without credentials connections are not encrypted."""

    address: str
    credentials: Any = None
    admit: Admit = everybody
    health: HealthPage | None = None

    def check_start(self, state: Path, linger: float) -> None:
        """Refuse settings with which the server cannot start, before anything takes time or is written."""
        if not 0 <= linger < math.inf:
            raise UsageError(f"--linger must be a number of seconds from 0 on, got {linger:g}")
        _check_folder(state)
        with ExitStack() as held:  # binds the addresses for a moment; no client is admitted yet
            _listen(self.address, held)
            if self.health is not None:
                _listen(self.health.address, held)

    def starting(self) -> AbstractContextManager[None]:
        """Answer ``/healthz`` while the server starts: accounting and a long journal take time."""
        return nullcontext() if self.health is None else self.health.meanwhile({"ok": True, "starting": True})


@dataclass(frozen=True, eq=False)
class Served:
    """The outcome of `serve`."""

    finished: bool
    k: int
    rounds: int
    model: Floats
    score: Measured | None = None  # on a public set, where the run file names one


def serve(
    agreed: Agreement,
    listening: Listening,
    state: Path,
    *,
    late: Container[str] = (),
    limits: LivenessLimits | None = None,
    asked: str = "",
    costs: Sequence[float] = (),
    linger: float = 60.0,
    keep_all: bool = False,
    reserve: float | None = None,
    log: Log = quiet,
) -> Served:
    """Serve until every client that takes part has confirmed the end, at most ``linger`` seconds after it, or until a signal.

    Rounds do not wait for the clients in ``late`` until they join. ``asked``, the source of the terms, is stored with them, and
    so are ``costs``, the epsilon of each client's whole plan. ``keep_all`` keeps the whole journal, which is otherwise pruned
    behind the snapshots. While fewer than ``reserve`` bytes of the disk are free, the server takes no new messages.
    """
    if (few := raise_limit(len(agreed.names))) is not None:
        log("few_descriptors", reason=few)
    make_folder(state)
    present = [c for c, name in enumerate(agreed.names) if name not in late]
    journal = state / "journal"
    with ExitStack() as held:
        shutdown = held.enter_context(ShutdownRequest.on_signals())
        with listening.starting():  # a long journal takes a while
            durable = DurableServer(
                journal, agreed.text, lambda text: agreed.terms, agreed.initial(), present, prune=not keep_all
            )
        held.enter_context(durable)
        kept = {"asked": asked, "terms": agreed.text, "costs": list(costs)}
        _keep_terms(state / "terms.json", json.dumps(kept).encode())
        room = usual_reserve(durable.model.nbytes, durable.snapshot_bytes) if reserve is None else reserve
        service = Service(durable, agreed, log, DiskRoom(state, room))
        try:
            with HistoryCheck(journal, log):
                asyncio.run(_serve(service, listening, limits or LivenessLimits(), costs, state, linger, log, shutdown))
            durable.snapshot_if_possible()
        finally:  # after the last message of any stream
            log("stopped", k=durable.k, finished=durable.finished)
        return Served(durable.finished, durable.k, agreed.terms.rounds, durable.model)


async def _serve(
    service: Service,
    listening: Listening,
    limits: LivenessLimits,
    costs: Sequence[float],
    state: Path,
    linger: float,
    log: Log,
    shutdown: ShutdownRequest,
) -> None:
    stop, agreed = shutdown.event(), service.agreement
    server = NetworkServer(service, limits, listening.admit, log, costs)
    health = None
    try:
        port = await server.start(listening.address, listening.credentials)
        if listening.health is not None:
            health = await listening.health.serve(lambda: _facts(service, server))
        log(
            "serving",
            federation=agreed.federation,
            terms=agreed.digest,
            port=port,
            k=service.durable.k,
            rounds=agreed.terms.rounds,
            epoch=service.durable.epoch,
            clients=len(agreed.names),
        )
        await _until_over(server, stop, log, linger, lambda: _save_model(service, state))
    finally:
        if health is not None:
            health.close()
        await server.stop()
        if service.durable.finished:  # late updates may have changed the model
            _save_model(service, state)


async def _until_over(server: NetworkServer, stop: asyncio.Event, log: Log, linger: float, save: Any) -> None:
    why = OVER_BEFORE if server.finished.is_set() else NOT_CONFIRMED
    async with background(stop.wait(), server.finished.wait(), server.all_told.wait()) as (stopping, ending, told):
        await asyncio.wait({stopping, ending, server.failed}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done() and not stopping.done():
            save()
            if waiting := server.untold():
                log("lingering", clients=waiting, at_most=linger, why=why)
            await asyncio.wait({stopping, told, server.failed}, timeout=linger, return_when=asyncio.FIRST_COMPLETED)
            if waiting := server.untold():
                log("end_not_confirmed", clients=waiting, why=why, what_to_do=WHO_WAITS)
        if server.failed.done():
            server.failed.result()


def _keep_terms(path: Path, content: bytes) -> None:
    """Write the terms unless they are there already, so that no kill or full disk can destroy them."""
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    with whole_file(path) as out:
        out.write(content)


def _save_model(service: Service, state: Path) -> None:
    LastModel.of(service.durable.model, service.agreement).save(state / "model.npz")


def _facts(service: Service, server: NetworkServer) -> dict[str, Any]:
    found = service.status()
    told = {name: found[name] for name in ("federation", "k", "rounds", "epoch", "finished", "disk")}
    return {"ok": True, "connected": len(server.sessions), **told}


def _check_folder(state: Path) -> None:
    """Refuse a folder with foreign files: a mistyped --state must not mix a federation with other files."""
    if state.exists() and not state.is_dir():
        raise UsageError(f"{state} is not a folder; name a new or empty one with --state")
    ours = (state / "journal").is_dir() or (state / "terms.json").exists()
    if state.is_dir() and not ours and any(found.name != "lost+found" for found in state.iterdir()):
        raise UsageError(f"{state} has files that are not a federation's; name a new or empty folder with --state")
    missing = [place for place in (state, *state.parents) if not place.exists()]
    try:
        state.mkdir(parents=True, exist_ok=True)
        for place in missing:
            place.rmdir()  # created only when there is a file to write
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{state} cannot be made ({reason}); name another folder with --state") from None


def _listen(address: str, held: ExitStack) -> None:
    """Listen for a moment on at least one of the host's addresses, as gRPC will."""
    host, port = Address(address).host_and_port()
    refused: OSError | None = None
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                taken = held.enter_context(socket.socket(family, kind, protocol))
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or a restart would have to wait
                taken.bind(place)
                taken.listen(1)
                return
            except OSError as error:
                refused = error
    except (OSError, UnicodeError) as error:  # the name is unknown or invalid
        refused = error if isinstance(error, OSError) else None
    reason = "no such host" if refused is None else (refused.strerror or str(refused)).lower()
    raise UsageError(f"{address} cannot be listened on ({reason}); is it this machine's, and the port free?")
