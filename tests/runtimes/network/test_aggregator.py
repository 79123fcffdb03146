"""Aggregators over real sockets: the model of a tree is that of the flat server, and who kills one loses nothing by it."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.apps.terms import build_terms, terms_text
from crescendo.runtimes.durable import replay
from crescendo.runtimes.entries import Entry, Received, Summed, Voided, from_bytes
from crescendo.runtimes.journal import read_records
from crescendo.runtimes.store import open_ledger
from tests.conformance.cases import IN_STEP, case
from tests.conformance.runtimes import on_the_simulator
from tests.runtimes.network.processes import CONTEXT, Federation, federation, free_port

pytestmark = pytest.mark.slow


def run_aggregator(parent: int, port: int, name: str, log: str, certs: Path | None = None) -> None:
    """The body of an aggregator's process."""
    from crescendo.apps.aggregate import Tree, aggregate
    from crescendo.errors import CrescendoError
    from crescendo.runtimes.network.link import Patience
    from crescendo.runtimes.network.logs import JsonLog

    with Path(log).open("a") as out, JsonLog(out) as said:
        try:
            tree = Tree(f"127.0.0.1:{parent}", f"127.0.0.1:{port}", name, certs)
            aggregate(tree, log=said, patience=Patience(0.05, 0.5))
        except CrescendoError as error:
            said("ended", reason=str(error))
            sys.exit(1)


@dataclass
class Grove:
    """A federation with aggregators. Use it in ``with``: nothing outlives it."""

    made: Federation
    parents: dict[str, str]  # aggregator -> its parent ("server" or another)
    places: list[str]  # of each client
    ports: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, BaseProcess] = field(default_factory=dict)

    def __enter__(self) -> Grove:
        self.made.__enter__()
        self.ports = {"server": self.made.port, **{name: free_port() for name in self.parents}}
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.nodes.values():
            process.kill()
            process.join()
        self.made.__exit__(*error)

    def start_node(self, name: str) -> None:
        log = str(self.made.folder / f"{name}.log")
        asked = (self.ports[self.parents[name]], self.ports[name], name, log)
        self.nodes[name] = CONTEXT.Process(target=run_aggregator, args=asked)
        self.nodes[name].start()

    def kill_node(self, name: str) -> None:
        self.nodes[name].kill()
        self.nodes[name].join()
        self.start_node(name)

    def start_client(self, c: int) -> None:
        self.made.start_client(c, port=self.ports[self.places[c]])

    def start(self) -> None:
        self.made.start_server()
        for name in self.parents:
            self.start_node(name)
        for c in range(len(self.made.names)):
            self.start_client(c)

    def entries(self) -> list[Entry]:
        return [from_bytes(record.kind, record.body) for record in read_records(self.made.journal)]

    def check(self) -> None:
        """Every pair was applied once, the model is what the journal adds up to, and every outbox is empty."""
        agreed = build_terms(terms_text(self.made.config))
        terms, entries, applied = agreed.terms, self.entries(), list[tuple[int, int]]()
        for entry in entries:
            if isinstance(entry, Received):
                applied.append((entry.round, entry.client))
            elif isinstance(entry, Summed):
                applied += entry.pairs
        assert not any(isinstance(entry, Voided) for entry in entries), self.made.logs()
        assert len(applied) == len(set(applied)), "an update was applied twice"
        assert set(applied) == {(i, c) for i in range(terms.rounds) for c in range(terms.clients) if terms.share(i, c)}
        assert self.made.model().tobytes() == replay(self.made.journal).tobytes()
        for c in range(len(self.made.names)):
            with open_ledger(self.made.folder / f"client{c}" / "ledger.sqlite", read_only=True) as ledger:
                assert not ledger.unacknowledged(agreed.federation)


ONE = ({"node": "server"}, ["node"] * 5)
DEEP = ({"top": "server", "left": "top", "right": "top"}, ["left", "left", "right", "top", "server"])


@pytest.mark.parametrize("shape", [ONE, DEEP], ids=["one", "deep"])
@pytest.mark.parametrize("name", IN_STEP)
def test_in_step_a_tree_gives_the_flat_server_s_model(name: str, shape: Any, tmp_path: Path) -> None:
    here = on_the_simulator(IN_STEP[name], tmp_path)
    with Grove(federation(tmp_path, IN_STEP[name], seeded=True), *shape) as grove:
        grove.start()
        grove.made.wait()
        grove.check()
        assert any(isinstance(entry, Summed) for entry in grove.entries())
        np.testing.assert_allclose(grove.made.model(), here.model, rtol=0, atol=1e-12 * np.abs(here.model).max())


LONG = case(
    run={"wire": "float32"},
    data={"source": "synthetic:rows=1000,features=4"},
    schedule={"rounds": 60, "sizes": {"kind": "constant", "size": 500}, "wait": {"rounds": 2}},
    serve={"absent_after": 600.0},
)


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
def test_narrow_floats_go_through_a_tree(wire: str, tmp_path: Path) -> None:
    with Grove(federation(tmp_path, case(run={"wire": wire})), *ONE) as grove:
        grove.start()
        grove.made.wait()
        grove.check()


def entries_in(grove: Grove) -> int:
    try:
        return len(grove.entries())
    except Exception:  # it is being made
        return 0


@pytest.mark.parametrize("whom", ["nodes", "anybody", "movers"])
def test_killing_aggregators_or_anybody_loses_nothing(whom: str, tmp_path: Path) -> None:
    """The victims are started again at once; a mover is a client that comes back somewhere else in the tree."""
    rng = random.Random(whom)
    with Grove(federation(tmp_path, LONG), *DEEP) as grove:
        grove.places = list(grove.places)
        grove.start()
        for instant in sorted(rng.sample(range(100), 8)):
            grove.made.until(lambda at=instant: entries_in(grove) >= at, f"{instant} entries")  # type: ignore[misc]
            CONTEXT.Event().wait(rng.uniform(0.0, 0.05))  # an instant that nobody knows; nothing depends on which
            alive = [c for c, process in grove.made.clients.items() if process.is_alive()]
            victims: list[Any] = alive if whom == "movers" and alive else list(grove.nodes)
            if whom == "anybody":
                victims += ["server", *alive]
            victim = rng.choice(victims)
            if victim in grove.nodes:
                grove.kill_node(victim)
            else:
                process = grove.made.server if victim == "server" else grove.made.clients[victim]
                assert process is not None
                process.kill()
                process.join()
                if whom == "movers":
                    grove.places[victim] = rng.choice(["server", *grove.nodes])
                grove.made.start_server() if victim == "server" else grove.start_client(victim)
        grove.made.wait()
        grove.check()
        assert any(isinstance(entry, Summed) and len(entry.pairs) > 1 for entry in grove.entries()), (
            "nothing was added up"
        )


# -- with certificates, or tokens


def run_secured(what: str, folder: Path, port: int, certs: Path, log: Path) -> None:
    """The body of a server's or client's process that proves who it is."""
    from crescendo.apps.join import join
    from crescendo.apps.own_data import Source
    from crescendo.apps.places import listening, place
    from crescendo.apps.policy import Policy
    from crescendo.apps.serve import serve
    from crescendo.apps.terms import read_served
    from crescendo.runtimes.network.link import Patience
    from crescendo.runtimes.network.logs import JsonLog

    address = f"127.0.0.1:{port}"
    with log.open("a") as out, JsonLog(out) as said:
        if what == "server":
            config = read_served(folder / "federation.toml")
            serve(config, listening(address, certs), folder / "served", linger=600.0, log=said)
        else:
            c, policy = int(what), Policy.model_validate({"mechanisms": ["none"]})
            source, state = Source(str(folder / f"part{c}.npz")), folder / f"client{c}"
            patience = Patience(0.05, 0.5)
            join(place(address, certs), f"client {c}", source, state, policy, log=said, patience=patience)


@pytest.mark.parametrize("tokens", [False, True], ids=["certificates", "tokens"])
def test_a_tree_with_tls_lets_in_who_proves_to_be_part_of_it_and_nobody_else(tokens: bool, tmp_path: Path) -> None:
    from crescendo.apps.certs import make_certificates

    keys, raw = tmp_path / "keys", case(clients={"count": 2}, schedule={"wait": {"rounds": 0}})
    make_certificates(keys, clients=["client 0", "client 1"], aggregators=["node", "other"], tokens=tokens)
    with Grove(federation(tmp_path, raw), {"node": "server"}, ["node"] * 2) as grove:
        made, port = grove.made, grove.ports["node"]

        def secured(what: str, at: int, certs: Path) -> BaseProcess:
            log = made.folder / ("server.log" if what == "server" else f"client{what}.log")
            process = CONTEXT.Process(target=run_secured, args=(what, made.folder, at, certs, log))
            process.start()
            return process

        made.server = secured("server", made.port, keys / "server")
        asked = (made.port, free_port(), "node", str(made.folder / "false.log"), keys / "aggregators" / "other")
        grove.nodes["false"] = CONTEXT.Process(target=run_aggregator, args=asked)
        grove.nodes["false"].start()
        made.until(lambda: not grove.nodes["false"].is_alive(), "the false aggregator ends")
        assert grove.nodes["false"].exitcode == 1
        assert "has not shown a certificate" in made.events("false.log")[-1]["reason"]
        log = str(made.folder / "node.log")
        grove.nodes["node"] = CONTEXT.Process(
            target=run_aggregator, args=(made.port, port, "node", log, keys / "aggregators" / "node")
        )
        grove.nodes["node"].start()
        for c in range(2):
            made.clients[c] = secured(str(c), port, keys / "clients" / f"client {c}")
        made.wait()
        grove.check()
        secrets = [path.read_text().strip() for path in [*keys.rglob("key.pem"), *keys.rglob("token")]]
        assert not any(secret in path.read_text() for path in made.folder.glob("*.log") for secret in secrets)
