"""A federation with aggregators between clients and server, each a process of its own that may be killed at any instant."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.network.processes import CONTEXT, Federation, free_port


def run_aggregator(parent: int, port: int, name: str, log: str, certs: Path | None = None) -> None:
    """The body of an aggregator's process."""
    from crescendo.cli.addresses import listening, place
    from crescendo.errors import CrescendoError
    from crescendo.logs import JsonLog
    from crescendo.network.aggregator.node import aggregate
    from crescendo.network.transport.retry import Backoff

    with Path(log).open("a") as out, JsonLog(out) as said:
        try:
            there, here = place(f"127.0.0.1:{parent}", certs), listening(f"127.0.0.1:{port}", certs)
            aggregate(name, there, here, log=said, backoff=Backoff(0.05, 0.5))
        except CrescendoError as error:
            said("ended", reason=str(error))
            sys.exit(1)


Shape = tuple[dict[str, str], list[str]]  # each aggregator's parent, each client's place
Name = str | int  # "server", an aggregator's name, or a client's number


@dataclass
class ProcessTree:
    """A federation with aggregators. Use it in ``with``: nothing outlives it."""

    made: Federation
    parents: dict[str, str]  # aggregator -> its parent ("server" or another)
    places: list[str]  # of each client: whom it joins
    ports: dict[str, int] = field(default_factory=dict)
    doors: dict[str, int] = field(default_factory=dict)  # the ports where others find them: their own, or a proxy's
    nodes: dict[str, BaseProcess] = field(default_factory=dict)

    def __enter__(self) -> ProcessTree:
        self.made.__enter__()
        self.ports = {"server": self.made.port, **{name: free_port() for name in self.parents}}
        self.doors = dict(self.ports)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.nodes.values():
            process.kill()
            process.join()
        self.made.__exit__(*error)

    def start_node(self, name: str, run: Callable[..., None] = run_aggregator) -> None:
        log = str(self.made.folder / f"{name}.log")
        asked = (self.doors[self.parents[name]], self.ports[name], name, log)
        self.nodes[name] = CONTEXT.Process(target=run, args=asked)
        self.nodes[name].start()

    def start_client(self, c: int) -> None:
        self.made.start_client(c, port=self.doors[self.places[c]])

    def start(self) -> None:
        self.made.start_server()
        for name in self.parents:
            self.start_node(name)
        for c in range(len(self.made.names)):
            self.start_client(c)

    def wait(self) -> None:
        """Until every client has ended by itself, well; then stop the server.

        A client that is killed in its last instant has heard of the end, so the server and the aggregators may end before it
        is back; their operators would start them once more.
        """
        others: list[Name] = ["server", *self.parents]
        while self._clients_at_work():
            self.made.until(lambda: not self._clients_at_work() or bool(self._ended(others)), "the end")
            for name in self._ended(others) if self._clients_at_work() else ():
                assert self._process(name).exitcode == 0, self.made.logs()
                self._start(name)
        self.made.wait()

    def _ended(self, names: list[Name]) -> list[Name]:
        return [name for name in names if not self._process(name).is_alive()]

    def kill(self, *names: Name) -> None:
        """SIGKILL for all of them at once; then all are started again, in the order given."""
        processes = [self._process(name) for name in names]
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for name in names:
            self._start(name)

    def stop_for(self, seconds: float, *names: Name) -> None:
        """SIGSTOP for all of them at once, and SIGCONT after so many seconds: what ran then goes on at once, in any order."""
        processes = [self._process(name) for name in names]
        for sign, pause in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
            for process in processes:
                if process.pid is not None and process.is_alive():
                    os.kill(process.pid, sign)
            CONTEXT.Event().wait(pause)

    def alive(self) -> list[Name]:
        """Everybody who can be killed: the server, the aggregators, and the clients that have not ended."""
        return ["server", *self.parents, *self._clients_at_work()]

    def _clients_at_work(self) -> list[int]:
        return [c for c, process in self.made.clients.items() if process.is_alive()]

    def _process(self, name: Name) -> BaseProcess:
        at_work = self.made.clients[name] if isinstance(name, int) else self.nodes.get(name)
        process = self.made.server if name == "server" else at_work
        assert process is not None
        return process

    def _start(self, name: Name) -> None:
        if isinstance(name, int):
            self.start_client(name)
        elif name == "server":
            self.made.start_server()
        else:
            self.start_node(name)


FLAT: Shape = ({}, ["server"] * 5)
ONE: Shape = ({"node": "server"}, ["node"] * 5)
TWO: Shape = ({"left": "server", "right": "server"}, ["left", "left", "right", "right", "server"])
DEEP: Shape = ({"top": "server", "left": "top", "right": "top"}, ["left", "left", "right", "top", "server"])
