"""Aggregators over real sockets: the model of a tree is that of the flat server, with TLS and tokens too."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from crescendo.storage.journal.journal_entries import Summed
from tests.conformance.cases import IN_STEP, case
from tests.conformance.runtimes import on_the_simulator
from tests.network.final_checks import check, entries_of
from tests.network.process_tree import ONE, ProcessTree, run_aggregator
from tests.network.processes import CONTEXT, federation, free_port, noting_what_is_sent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", IN_STEP)
def test_in_step_one_aggregator_gives_the_flat_server_s_model(name: str, tmp_path: Path) -> None:
    """Deeper trees are among the runtimes of `tests.conformance`."""
    here = on_the_simulator(IN_STEP[name], tmp_path)
    with ProcessTree(federation(tmp_path, IN_STEP[name], seeded=True), *ONE) as tree:
        tree.start()
        tree.wait()
        check(tree.made)
        assert any(isinstance(entry, Summed) for entry in entries_of(tree.made))
        np.testing.assert_allclose(tree.made.model(), here.model, rtol=0, atol=1e-12 * np.abs(here.model).max())


@pytest.mark.parametrize("wire", ["float16", "bfloat16"])
def test_narrow_floats_go_through_a_tree(wire: str, tmp_path: Path) -> None:
    with ProcessTree(federation(tmp_path, case(run={"wire": wire})), *ONE) as tree:
        tree.start()
        tree.wait()
        check(tree.made)


# -- with certificates, or tokens


def run_secured(what: str, folder: Path, port: int, certs: Path, log: Path) -> None:
    """The body of a server's or client's process that proves who it is."""
    from crescendo.cli.addresses import listening, place
    from crescendo.config.loading import read_served
    from crescendo.federation.own_records import RecordSource
    from crescendo.federation.policy import Policy
    from crescendo.logs import JsonLog
    from crescendo.network.client.join import join
    from crescendo.network.transport.retry import Backoff
    from crescendo.runs.serving import serve_file

    address = f"127.0.0.1:{port}"
    with log.open("a") as out, JsonLog(out) as said, noting_what_is_sent(log):
        if what == "server":
            config = read_served(folder / "federation.toml")
            serve_file(config, listening(address, certs), folder / "served", linger=600.0, keep_all=True, log=said)
        else:
            c, policy = int(what), Policy.model_validate({"mechanisms": ["none"]})
            source, state = RecordSource(str(folder / f"part{c}.npz")), folder / f"client{c}"
            backoff = Backoff(0.05, 0.5)
            join(place(address, certs), f"client {c}", source, state, policy, log=said, backoff=backoff)


@pytest.mark.parametrize("tokens", [False, True], ids=["certificates", "tokens"])
def test_a_tree_with_tls_lets_in_who_proves_to_be_part_of_it_and_nobody_else(tokens: bool, tmp_path: Path) -> None:
    from crescendo.network.authority.certificates import make_certificates

    keys, raw = tmp_path / "keys", case(clients={"count": 2}, schedule={"wait": {"rounds": 0}})
    make_certificates(keys, clients=["client 0", "client 1"], aggregators=["node", "other"], tokens=tokens)
    with ProcessTree(federation(tmp_path, raw), {"node": "server"}, ["node"] * 2) as tree:
        made, port = tree.made, tree.ports["node"]

        def secured(what: str, at: int, certs: Path) -> BaseProcess:
            log = made.folder / ("server.log" if what == "server" else f"client{what}.log")
            process = CONTEXT.Process(target=run_secured, args=(what, made.folder, at, certs, log))
            process.start()
            return process

        made.server = secured("server", made.port, keys / "server")
        asked = (made.port, free_port(), "node", str(made.folder / "false.log"), keys / "aggregators" / "other")
        tree.nodes["false"] = CONTEXT.Process(target=run_aggregator, args=asked)
        tree.nodes["false"].start()
        made.until(lambda: not tree.nodes["false"].is_alive(), "the false aggregator ends")
        assert tree.nodes["false"].exitcode == 1
        assert "no certificate or token of" in made.events("false.log")[-1]["reason"]
        log = str(made.folder / "node.log")
        tree.nodes["node"] = CONTEXT.Process(
            target=run_aggregator, args=(made.port, port, "node", log, keys / "aggregators" / "node")
        )
        tree.nodes["node"].start()
        for c in range(2):
            made.clients[c] = secured(str(c), port, keys / "clients" / f"client {c}")
        made.wait()
        check(made)
        secrets = [path.read_text().strip() for path in [*keys.rglob("key.pem"), *keys.rglob("token")]]
        assert not any(secret in path.read_text() for path in made.folder.glob("*.log") for secret in secrets)
