"""The federation's server on the network: grpc.aio around a `Service`.

Every joined client has one stream: its reader (`ClientStreams`) puts messages into the `CommitQueue`, and its `Session` writes.
The queue passes batches to the service, in a thread, and the outcome to the sessions. A client that floods waits for its own
messages. One that breaks the protocol gets the reason and its stream is closed; one that does so repeatedly has to wait before it
may join again. The memory for a client is bounded: an unfinished vector, a few messages in the queue (one if they are large), and
the newest broadcast.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from crescendo import system
from crescendo.core.vectors import Raw
from crescendo.errors import CrescendoError, PeerError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log, quiet
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.network.protocol.versions import PeerVersion
from crescendo.network.protocol.wire_messages import Goodbye, Hello, Refusal, VoidRound
from crescendo.network.server.admitted_streams import AdmittedStreams
from crescendo.network.server.aggregator_requests import AggregatorRequests
from crescendo.network.server.aggregator_streams import AggregatorStreams
from crescendo.network.server.client_streams import ClientStreams
from crescendo.network.server.commit_queue import Batch, CommitQueue
from crescendo.network.server.health import health_handlers
from crescendo.network.server.liveness import Liveness, LivenessLimits
from crescendo.network.server.service import Committed, Message, Service, Submission
from crescendo.network.server.session import LARGE, MakeSession, Session, Traffic
from crescendo.network.server.status import Parties, StatusReporter
from crescendo.network.transport.channels import listen, parsed
from crescendo.network.transport.connections import Connections
from crescendo.network.transport.pending_streams import BUSY, LONGEST_HOLD, PendingStreams, source_of
from crescendo.network.transport.rate_limits import TOO_MUCH_STATUS, RateLimits, StatusLimits
from crescendo.network.transport.security.authenticator import Admit, Authenticator, everybody
from crescendo.network.transport.stream_writer import CLOSE_TIMEOUT
from crescendo.storage.journal.journal_entries import Received

STOPS = "the server stops; come back later"
WAITED_FOR = "your update is here, so rounds wait for this client again; come back to go on where the others are"


class NetworkServer:
    """Serves one service. After `start`, `finished` or `failed` is set in the end; `stop` finishes the current write."""

    role = "server"

    def __init__(
        self,
        service: Service,
        limits: LivenessLimits | None = None,
        admit: Admit = everybody,
        log: Log = quiet,
        costs: Sequence[float] = (),
    ) -> None:
        self.service, self.admit, self.log = service, admit, log
        self.liveness = Liveness(self, limits or LivenessLimits())
        self.sessions: dict[int, Session] = {}
        self.last_heard: dict[int, float] = {}
        self._traffic: dict[int, Traffic] = {}
        self._versions: dict[
            int, PeerVersion | None
        ] = {}  # of the clients that have joined since the server was started
        self._status_limits = StatusLimits()
        self.rate_limits: defaultdict[int, RateLimits] = defaultdict(RateLimits)
        self._pending = PendingStreams(len(service.agreement.names), log)
        self._connections = Connections(self._pending)
        self._admitted = AdmittedStreams(admit, log)
        streams = self._pending, self._connections, self._admitted
        self._clients = ClientStreams(self, *streams)
        self._aggregators = AggregatorStreams(AggregatorRequests(self), *streams)
        parties = Parties(self.version, self._versions, self._aggregators.versions)
        seen = self.sessions, self.last_heard, self._traffic, parties
        self._status_reporter = StatusReporter(service, *seen, self.liveness, costs, log)
        self._arriving: set[int] = set()  # clients whose hello is in the queue
        self._told: set[int] = set()  # clients that have confirmed the end
        self.commit_queue = CommitQueue(service, lambda: list(self.sessions), self._on_committed, self._fail)
        self._checking: list[asyncio.Task[None]] = []
        self._server: grpc.aio.Server | None = None
        self.finished, self.all_told = asyncio.Event(), asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def agreement(self) -> Agreement:
        return self.service.agreement

    @property
    def version(self) -> PeerVersion:
        return self.service.version

    @property
    def epoch(self) -> int:
        return self.service.durable.epoch

    async def start(self, address: str, credentials: Any = None) -> int:
        """Start to listen; return the port."""
        status = (
            grpc.stream_stream_rpc_method_handler(  # one message each way; as a stream, a silent peer is pending too
                self._status,
                request_deserializer=parsed(pb.StatusRequest),
                response_serializer=pb.StatusReply.SerializeToString,
            )
        )
        health = health_handlers(self._pending, lambda: not self.failed.done())
        handlers = self._clients.handlers(Status=status), self._aggregators.handlers, health
        self._server, port = await listen(handlers, address, credentials, self._connections.most)
        watches = self.liveness.run(), self._connections.watch(port), self._admitted.watch()
        self._checking = [asyncio.create_task(one) for one in watches]
        for task in self._checking:
            task.add_done_callback(self._on_checking_end)
        if self.service.durable.finished:
            self.finished.set()
        return port

    async def stop(self) -> None:
        """Finish the current write, and close every stream."""
        self._clients.close()
        await self._status_reporter.close()
        for session in list(self.sessions.values()):
            session.close(Refusal(STOPS))
        await self._aggregators.close(STOPS, over=self.all_told.is_set())
        await self.commit_queue.close()
        for task in self._checking:
            task.cancel()
        await asyncio.gather(*self._checking, return_exceptions=True)
        self.service.log_void()
        if self._server is not None:
            await self._server.stop(CLOSE_TIMEOUT)

    def _on_checking_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    # -- commits -------------------------------------------------------------------------------------------------------

    async def put(self, c: int, message: Message, sum_id: str = "", make: MakeSession | None = None) -> Submission:
        """Queue a message and wait until it is on disk or refused. ``make`` makes the session of a client that joins."""
        submission = Submission(c, message, sum_id, make=make)
        await self.commit_queue.add(submission)
        return submission

    def _on_committed(self, batch: Batch, committed: Committed) -> None:
        for one in batch:
            assert one.done is not None
            if isinstance(one.message, Hello):
                self._arriving.discard(one.client)
                if one.taken and not one.done.cancelled():
                    self._enter(one)  # now, or it would miss a broadcast of the next batch
            if not one.done.cancelled():
                one.done.set_result(None)
        for c in committed.acks.keys() & self.sessions.keys():
            self.sessions[c].acknowledge(committed.acks[c], committed.epoch)
        if committed.broadcast is not None:
            for c in committed.receivers.keys() & self.sessions.keys():
                self.sessions[c].publish(committed.broadcast, committed.receivers[c])
        for c in set(committed.off_probation) & self.sessions.keys():
            self.sessions[c].close(Refusal(WAITED_FOR))
        self.liveness.on_committed(batch)
        durable = self.service.durable
        if durable.finished and not self.finished.is_set():
            self.log("finished", rounds=durable.k, late=durable.late)
            self.finished.set()
        self.check_all_told()

    def untold(self) -> list[str]:
        """Return the clients that have joined and not confirmed the end, connected or not."""
        return [self.agreement.names[c] for c in sorted(self.service.durable.instances) if c not in self._told]

    def check_all_told(self) -> None:
        """Set `all_told` if the run is over and every client that takes part has confirmed it."""
        if self.finished.is_set() and not self.untold():
            self.all_told.set()

    # -- requests of clients -------------------------------------------------------------------------------------------

    async def join(self, c: int, hello: Hello) -> Session | list[Any]:
        return await self.let_in(c, hello, lambda limits: Session(c, limits, hello))

    async def let_in(self, c: int, hello: Hello, make: MakeSession) -> Session | list[Any]:
        """Return the outcome of a hello, direct or through an aggregator: a session from ``make``, or the answers."""
        if c in self._arriving:  # only one hello of a name in the queue, however many streams it opens
            return [BUSY]
        if (why := self.rate_limits[c].may_join()) is not None:
            return [Refusal(why)]
        self._arriving.add(c)
        submission = await self.put(c, hello, make=make)
        if submission.costly:  # a server is rarely an older copy; a client that claims so repeatedly lies
            self.rate_limits[c].strikes.take(1)
        return submission.session or submission.answers

    def _enter(self, submission: Submission) -> None:
        """Make the session of a client that has joined; it replaces the client's older stream."""
        c = submission.client
        older = self.sessions.get(c)
        if older is not None:
            older.close(Refusal("this client has joined again from elsewhere; if these are two copies, stop one", True))
        assert submission.make is not None  # every hello comes with one
        session = submission.session = self.sessions[c] = submission.make(self.rate_limits[c])
        session.traffic = self._traffic.setdefault(c, session.traffic)
        assert isinstance(submission.message, Hello)
        self._versions[c] = submission.message.version
        self._told.discard(c)  # it ended before it could note the end, and needs it again
        self.liveness.on_joined(c)
        self.on_heard(session)
        for answer in submission.answers:
            session.send(answer)

    def on_heard(self, session: Session) -> None:
        self.last_heard[session.client] = system.monotonic()

    async def on_declined(self, c: int, goodbye: Goodbye) -> None:
        """Do nothing: the stream's handler has logged it."""

    async def on_update(self, session: Session, round: int, data: Raw) -> None:
        session.traffic.up += len(data)
        update = Received(round, session.client, self.agreement.wire, data)
        await self._pass_on(session, update, large=len(data) > LARGE)

    async def on_void(self, session: Session, message: VoidRound) -> None:
        await self._pass_on(session, message)

    async def on_goodbye(self, session: Session, goodbye: Goodbye) -> None:
        """Handle the goodbye of a client that leaves for good, or for which the run is over."""
        if not goodbye.finished:
            await self.put(session.client, goodbye)
        self._told.add(session.client)

    def on_broken(self, session: Session, error: PeerError) -> Refusal:
        session.rate_limits.strikes.take(1)
        self.log("refused", client=self.agreement.names[session.client], reason=str(error))
        return Refusal(str(error))

    def on_end(self, session: Session) -> None:
        if self.sessions.get(session.client) is session:
            del self.sessions[session.client]
            if session.client not in self._told:  # one that has confirmed the end is not lost
                self.log("disconnected", client=self.agreement.names[session.client])
        self.check_all_told()

    async def _pass_on(self, session: Session, message: Message, large: bool = False) -> None:
        """Queue a message without waiting for it, unless too many of this client are waiting."""
        await session.in_flight.acquire()
        if large:  # only one of them in the queue, while the next one arrives
            await session.large_in_flight.acquire()
        submission = Submission(session.client, message)
        done = self.commit_queue.add(submission)
        done.add_done_callback(lambda _: self._answer(session, submission))  # not a task: there are thousands a second
        if large:
            done.add_done_callback(lambda _: session.large_in_flight.release())

    def _answer(self, session: Session, submission: Submission) -> None:
        for answer in submission.answers:
            if isinstance(answer, Refusal) and (answer.final or answer.round is None):
                session.close(answer)
            else:
                session.send(answer)
        if submission.useless:
            session.acknowledge(self.service.durable.settled(session.client), self.epoch)
        if submission.useless or submission.answers:  # no client may ask for the same refusal without end
            asyncio.get_running_loop().call_later(session.rate_limits.useless.take(), session.in_flight.release)
        else:
            session.in_flight.release()

    # -- for people ----------------------------------------------------------------------------------------------------

    async def _status(self, requests: Any, context: Any) -> None:
        request = await self._pending.first_message(context)
        if request is None:
            return
        try:
            self.admit("", request.token, context)
        except PeerError as error:
            await self._pending.hold_refused(context, error)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except CrescendoError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self._pending.our_fault(error))
        party = _party(self.admit, request.token, context)
        wait = self._status_limits.wait(f"address {source_of(context)}", f"party {party}")
        if not await self._pending.hold(context, LONGEST_HOLD if wait is None else wait) or wait is None:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH_STATUS)
        await self._pending.send_last(context, [pb.StatusReply(json=await self._status_reporter.answer())])


def _party(admit: Admit, token: str, context: Any) -> str:
    """Return the proved identity of a peer, or without authentication its address. Never its own text, which it may vary."""
    identity = admit.identify(token, context) if isinstance(admit, Authenticator) else None
    return source_of(context) if identity is None else identity.uri
