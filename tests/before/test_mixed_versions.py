"""An older program and this one in one federation, whichever serves, and an upgrade in the middle of a run.

All are in step, with noise from seeds: so each ends with the model of a simulation, whoever computed it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.before.old_program import COMMIT, OldProgram, unpacked
from tests.conformance.cases import PRIVATE, case
from tests.conformance.runtimes import on_the_simulator
from tests.network.final_checks import check
from tests.network.process_tree import ProcessTree
from tests.network.processes import Federation, federation

pytestmark = pytest.mark.soak

SHORT: dict[str, Any] = {"rounds": 4, "wait": {"rounds": 0}}
RUNS: dict[str, dict[str, Any]] = {
    "plain": case(clients={"count": 2}, schedule=SHORT),
    "private": case(
        clients={"count": 2}, schedule=SHORT, privacy={"mechanism": "minibatch", **PRIVATE, "records": 200}
    ),
}
LONG = case(  # one client: what others sent meanwhile would be in the model that a party which comes back begins with
    clients={"count": 1}, schedule={"rounds": 400, "wait": {"rounds": 0}, "sizes": {"kind": "constant", "size": 20}}
)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldProgram:
    root = unpacked(COMMIT, tmp_path_factory.mktemp("old"))
    if root is None:
        pytest.skip(f"this clone has no commit {COMMIT}: its history is cut off")
    return OldProgram(root)


def check_end(made: Federation, raw: dict[str, Any]) -> None:
    """The journal is what the clients sent, and the model that of an uninterrupted run."""
    check(made)
    here = on_the_simulator(raw, made.folder).model
    np.testing.assert_allclose(made.model(), here, rtol=0, atol=1e-12 * np.abs(here).max())


def joined(made: Federation, log: str) -> list[str | None]:
    return [facts.get("version") for facts in made.events(log) if facts["event"] == "joined"]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("serves", ["old", "new"])
def test_a_federation_of_both_programs_ends_with_the_model_of_one(
    name: str, serves: str, tmp_path: Path, old: OldProgram
) -> None:
    """One client is old and one is new, whichever serves."""
    with federation(tmp_path, RUNS[name], seeded=True) as made:
        if serves == "old":
            made.start_server(old.server)
        else:
            made.start_server()
        made.start_client(0, old.client)
        made.start_client(1)
        made.wait()
        check_end(made, RUNS[name])
        if serves == "old":
            assert joined(made, "client1.log") == ["unknown"]
        else:
            versions = {facts["client"]: facts["version"] for facts in made.events("server.log") if "version" in facts}
            assert versions["client 0"] == "unknown" != versions["client 1"]


@pytest.mark.parametrize("which", ["old", "new"])
def test_an_aggregator_of_one_program_serves_clients_and_a_server_of_the_other(
    which: str, tmp_path: Path, old: OldProgram
) -> None:
    raw = RUNS["private"]
    with ProcessTree(federation(tmp_path, raw, seeded=True), {"node": "server"}, ["node"] * 2) as tree:
        if which == "old":
            tree.made.start_server()
            tree.start_node("node", old.aggregator)
            tree.start_client(0)
            tree.start_client(1)
        else:
            tree.made.start_server(old.server)
            tree.start_node("node")
            for c in range(2):
                tree.made.start_client(c, old.client, port=tree.doors["node"])
        tree.wait()
        check_end(tree.made, raw)


@pytest.mark.parametrize("what", ["server", "client"])
def test_an_upgrade_in_the_middle_gives_the_model_of_an_uninterrupted_run(
    what: str, tmp_path: Path, old: OldProgram
) -> None:
    with federation(tmp_path, LONG, seeded=True) as made:
        made.start_server(old.server)
        made.start_client(0, old.client)
        made.until(lambda: len(made.sent(0)) >= 5, "some rounds are done")
        if what == "server":
            made.stop_server()
            made.start_server()
        else:
            made.clients[0].terminate()
            made.join(made.clients[0])
            made.start_client(0)
        made.wait()
        check_end(made, LONG)
        found = made.events(f"{what}.log" if what == "server" else "client0.log")
        stopped = next(facts for facts in found if facts["event"] == "stopped")
        assert 0 < stopped["k" if what == "server" else "last"] < 399, "it was stopped in the middle"
        assert joined(made, "client0.log")[-1] == ("unknown" if what == "client" else None)
