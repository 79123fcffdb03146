"""A federation of real processes on loopback: a server and its clients, which may be killed at any instant.

The processes are forked from one that has loaded everything, so that starting one takes a fraction of a second.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.objectives.objective_kinds import OBJECTIVES
from tests import children

CONTEXT = children.CONTEXT
children.preload("tests.network.preload")
FINE = (None, 0, -signal.SIGTERM, -signal.SIGKILL)  # how a process may have ended
DEADLINE = 300.0  # seconds after which a run that should have ended counts as stuck


@dataclass(frozen=True)
class Client:
    """What a client process is told."""

    port: int
    name: str
    data: str
    state: str
    policy: dict[str, Any]
    seed: int | None
    log: str
    model: str | None = None
    longest_piece: float = (
        0.0  # seconds that a piece of a round takes at most, without any work: a long round on one core
    )
    checkpoint_every: float = 1e-4  # seconds of work: kills come in the middle of rounds that were written down


def run_server(run_file: str, port: int, state: str, log: str, linger: float) -> None:
    """The body of a server process."""
    from crescendo.config.loading import read_served
    from crescendo.errors import CrescendoError
    from crescendo.logs import JsonLog
    from crescendo.network.server.serve import Listening
    from crescendo.runs.serving import serve_file

    with Path(log).open("a") as out, JsonLog(out) as said:
        try:
            serve_file(
                read_served(Path(run_file)),
                Listening(f"127.0.0.1:{port}"),
                Path(state),
                linger=linger,
                keep_all=True,  # the checks at the end replay it from its first entry
                log=said,
            )
        except CrescendoError as error:
            said("ended", reason=str(error))
            sys.exit(1)


def run_client(client: Client) -> None:
    """The body of a client process."""
    from crescendo.errors import CrescendoError
    from crescendo.federation.own_records import RecordSource
    from crescendo.federation.policy import Policy
    from crescendo.logs import JsonLog
    from crescendo.network.client.join import join
    from crescendo.network.transport.channels import Endpoint
    from crescendo.network.transport.retry import Backoff
    from crescendo.objectives import ModelFile
    from crescendo.privacy.mechanisms.noise import SeededSource

    seed, log = client.seed, Path(client.log)
    os.environ["CRESCENDO_REGISTRY"] = str(log.parent / "registry")  # a fork has the variables of the first test
    with log.open("a") as out, JsonLog(out) as said, noting_what_is_sent(log), taking_time(client.longest_piece):
        try:
            join(
                Endpoint(f"127.0.0.1:{client.port}"),
                client.name,
                RecordSource(client.data),
                Path(client.state),
                Policy.model_validate(client.policy),
                model=None if client.model is None else ModelFile.read(client.model),
                log=said,
                backoff=Backoff(0.05, 0.5),
                randomness=None if seed is None else lambda me: SeededSource(seed, me),
                checkpoint_every=client.checkpoint_every,
            )
        except CrescendoError as error:
            said("ended", reason=str(error))
            sys.exit(1)


@contextmanager
def noting_what_is_sent(log: Path) -> Iterator[None]:
    """Write every update down before this process puts it on the wire, in a file of its own: a kill cuts its last line only."""
    from crescendo.network.protocol.wire_messages import UpdatePart

    handle, _ = tempfile.mkstemp(".sent", f"{log.stem}-", log.parent)
    with os.fdopen(handle, "w", buffering=1) as out:

        def noted(round: int, data: bytes, *others: Any) -> Any:
            out.write(json.dumps({"round": round, "data": data.hex()}) + "\n")
            return split(round, data, *others)

        split = UpdatePart.split
        with patch.object(UpdatePart, "split", noted):
            yield


@contextmanager
def taking_time(longest: float) -> Iterator[None]:
    """The last piece of each round takes up to so many seconds more; nothing depends on how many."""
    from crescendo.worker import Worker

    run, pause, rng = Worker.run, CONTEXT.Event(), random.SystemRandom()

    def slowly(worker: Worker, slots: int) -> None:
        run(worker, slots)
        if worker.round_is_full:
            pause.wait(rng.uniform(0.0, longest))

    with patch.object(Worker, "run", slowly if longest else run):
        yield


@dataclass
class Federation:
    """The folder of a federation, and its processes. Use it in ``with``: nothing outlives it."""

    folder: Path
    config: Config
    names: list[str]
    port: int
    policy: dict[str, Any]
    seed: int | None = None
    linger: float = 600.0
    client_port: int | None = None  # if it is not the server's
    longest_piece: float = 0.0  # seconds that the last piece of a client's round takes at most
    server: BaseProcess | None = None
    said_before: int = 0  # characters in the server's log before the newest server began
    clients: dict[int, BaseProcess] = field(default_factory=dict)

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *error: object) -> None:
        for process in [self.server, *self.clients.values()]:
            if process is not None and process.is_alive():
                process.kill()
        for process in [self.server, *self.clients.values()]:
            if process is not None:
                process.join()

    def start_server(self, run: Callable[..., None] = run_server) -> None:
        state, log = str(self.folder / "served"), str(self.folder / "server.log")
        run_file = str(self.folder / "federation.toml")
        self.said_before = len(Path(log).read_text()) if Path(log).exists() else 0
        self.server = CONTEXT.Process(target=run, args=(run_file, self.port, state, log, self.linger))
        self.server.start()

    def start_client(self, c: int, run: Callable[[Client], None] = run_client, **changes: Any) -> None:
        told: dict[str, Any] = {
            "port": self.client_port or self.port,
            "name": self.names[c],
            "data": str(self.folder / f"part{c}.npz"),
            "state": str(self.folder / f"client{c}"),
            "policy": self.policy,
            "seed": self.seed,
            "log": str(self.folder / f"client{c}.log"),
            "model": None if self.config.objective.kind in OBJECTIVES else self.config.objective.kind,
            "longest_piece": self.longest_piece,
        }
        self.clients[c] = CONTEXT.Process(target=run, args=(Client(**{**told, **changes}),))
        self.clients[c].start()

    def start(self) -> None:
        self.start_server()
        for c in range(len(self.names)):
            self.start_client(c)

    def wait(self) -> None:
        """Until every client has ended by itself, well; then stop the server."""
        self.join(*self.clients.values())
        assert [process.exitcode for process in self.clients.values()] == [0] * len(self.clients), self.logs()
        self.stop_server()

    def stop_server(self) -> None:
        """Ask it to stop once it serves: before that it cannot know what a signal means, and has nothing to write."""
        assert self.server is not None
        self.until(self._serves_or_has_ended, "the server serves")
        if self.server.is_alive() and self.server.pid is not None:
            self.server.terminate()  # which does not mind if it has just ended
        self.join(self.server)
        # it may have been ending by itself: once all is written and the handlers are gone, a signal still ends it, log and all
        assert self.server.exitcode in (0, -signal.SIGTERM), self.logs()
        ended_well = self.events("server.log")[-1]["event"] == "stopped"
        assert ended_well or self.server.exitcode == -signal.SIGTERM, self.logs()

    def _serves_or_has_ended(self) -> bool:
        assert self.server is not None
        newest = self.folder.joinpath("server.log").read_text()[self.said_before :]
        return not self.server.is_alive() or '"event": "serving"' in newest

    def join(self, *processes: BaseProcess) -> None:
        end, waiting = time.monotonic() + DEADLINE, list(processes)
        while waiting:
            watched = {*waiting, *([self.server] if self.server is not None and self.server.is_alive() else [])}
            wait([process.sentinel for process in watched], timeout=max(0.0, end - time.monotonic()))
            assert self.server is None or self.server.exitcode in FINE, self.logs()
            assert time.monotonic() < end, f"stuck after {DEADLINE} s:\n{self.logs()}"
            for process in [one for one in waiting if not one.is_alive()]:
                process.join()
                waiting.remove(process)
                assert process.exitcode in FINE, self.logs()

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Look again and again, for as long as a run may take. The processes give no other sign."""
        end, pause = time.monotonic() + DEADLINE, CONTEXT.Event()
        while not true():
            assert time.monotonic() < end, f"never happened: {what}\n{self.logs()}"
            pause.wait(0.005)

    def sent(self, c: int) -> dict[int, set[bytes]]:
        """By round, everything that the processes of a client have put on the wire as its update; one entry if all is well."""
        found: dict[int, set[bytes]] = defaultdict(set)
        for path in self.folder.glob(f"client{c}-*.sent"):
            for facts in self.events(path.name):
                found[facts["round"]].add(bytes.fromhex(facts["data"]))
        return found

    def events(self, log: str) -> list[dict[str, Any]]:
        """What a process logged; its last line may be cut by a kill."""
        path, found = self.folder / log, []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    @property
    def journal(self) -> Path:
        return self.folder / "served" / "journal"

    def model(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        with np.load(self.folder / "served" / "model.npz", allow_pickle=False) as file:
            return np.asarray(file["model"])


def federation(folder: Path, raw: dict[str, Any], *, seeded: bool = False, linger: float = 600.0) -> Federation:
    """Cut the data of a run file for the clients, and lay everything out. Nothing is started."""
    config = read(raw)
    dataset, parts = _cut(config)
    numbers = dataset.train.y
    labels = np.array(dataset.classes)[numbers.astype(int)] if dataset.classes else numbers
    for c, part in enumerate(parts):
        np.savez(folder / f"part{c}.npz", x=dataset.train.x[part], y=labels[part])
    (folder / "federation.toml").write_text(config.to_toml())
    policy: dict[str, Any] = {"mechanisms": ["none"]}
    if config.privacy.mechanism != "none":
        policy = {"epsilon": 100.0, "delta": 1e-5}
    return Federation(
        folder=folder,
        config=config,
        names=[f"client {c}" for c in range(len(parts))],
        port=free_port(),
        policy=policy,
        seed=config.run.seed if seeded else None,
        linger=linger,
    )


def _cut(config: Config) -> tuple[Any, list[Any]]:
    from crescendo.runs.prepare import load_parts

    return load_parts(config)


def _own_ports() -> Iterator[int]:
    """Ports that no other process of this test run tries, from a random one on.

    They lie below those that the system gives to outgoing connections: one of these could take a port while its server is down.
    """
    workers, me = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    mine = range(20_000 + int(me[2:]), 32_000, workers)
    begin = random.SystemRandom().randrange(len(mine))
    return itertools.cycle([*mine[begin:], *mine[:begin]])


PORTS = _own_ports()


def free_port() -> int:
    """A port that nobody listens on, another one each time: between this and its use it may lie unused for long."""
    while True:
        port = next(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
