"""A client killed in the middle of a long round of a served torch model goes on with it: one draw, one charge, one release."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.conformance.cases import case
from tests.network.final_checks import check
from tests.network.processes import CONTEXT, Client, Federation, federation, run_client
from tests.network.random_kills import applied_in, long_case, some_seed
from tests.soak import times

NET = """
from torch import nn

def net():
    return nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, 10))
"""
ROUND, SLOT, SLOTS = 2, 37, 80  # where the first client is held, and killed; slots of a round


def served(folder: Path) -> Federation:
    """Two clients with a torch module, Adam and dropout under batch-clip; their randomness is the operating system's."""
    (folder / "net.py").write_text(NET)
    raw = case(
        run={"wire": "float32"},
        clients={"count": 2},
        data={"source": "digits", "classes": list(range(10))},
        schedule={"rounds": 4, "sizes": {"kind": "constant", "size": 2 * SLOTS}},
        serve={"features": 64, "absent_after": 600.0},
        privacy={"mechanism": "batch-clip", "delta": 1e-6, "sigma": 2.0, "clip": 0.5, "records": 900},
    )
    options = {"optimiser": "adam", "batch": 4}
    return federation(folder, {**raw, "objective": {"kind": f"torch:{folder / 'net.py'}:net", "options": options}})


def run_noting(client: Client) -> None:
    """The body of a client's process that writes down what gets noise, before it gets it: for the eyes of this test.

    However long a checkpoint takes to write, the next is written after the next piece.
    """
    with noting_what_is_hidden(Path(client.log)), patch("crescendo.network.client.checkpoints.SHARE", 0):
        run_client(client)


def run_held(client: Client) -> None:
    """The same, but it stands still at a slot of a round, once that is on disk, and waits to be killed."""
    from crescendo.worker import Worker

    run = Worker.run

    def held(worker: Worker, slots: int) -> None:
        run(worker, 1)  # a piece is a slot
        if (worker.client.round, worker.client.h) == (ROUND, SLOT + 1):
            Path(client.log).with_suffix(".held").touch()
            CONTEXT.Event().wait()

    with patch.object(Worker, "run", held):
        run_noting(client)


def run_slowly(client: Client) -> None:
    """The body of a client's process whose slots take a moment each, so that a kill comes in the middle of a round."""
    from crescendo.worker import Worker

    run, pause = Worker.run, CONTEXT.Event()

    def slowly(worker: Worker, slots: int) -> None:
        run(worker, 1)
        pause.wait(0.002)

    with patch.object(Worker, "run", slowly), patch("crescendo.network.client.checkpoints.SHARE", 1):
        run_client(client)


@contextmanager
def noting_what_is_hidden(log: Path) -> Iterator[None]:
    from crescendo.privacy.mechanisms.mechanism import Private

    sound = Private._noised

    def noted(self: Private, i: int, hidden: Any) -> Any:
        with log.with_suffix(".hidden").open("a") as out:
            out.write(json.dumps({"round": i, "hidden": hidden.tobytes().hex()}) + "\n")
        return sound(self, i, hidden)

    with patch.object(Private, "_noised", noted):
        yield


def never_killed(made: Federation, checkpoint: Path) -> bytes:
    """What a client that is never killed hides of the round in a checkpoint: from its first slot on, with the same records."""
    from crescendo.config.to_terms import terms_text
    from crescendo.core.client import Client as Counters
    from crescendo.data.records import as_records
    from crescendo.federation.agreement import build_terms
    from crescendo.federation.own_model import clients_copy
    from crescendo.logs import quiet
    from crescendo.objectives import ModelFile
    from crescendo.privacy.mechanisms.noise import SystemSource
    from crescendo.storage.round_checkpoint import RoundCheckpoint
    from crescendo.worker import Worker

    found = RoundCheckpoint.read(checkpoint)
    assert found is not None and int(found.client["h"]) == SLOT
    file = ModelFile.read(made.config.objective.kind)
    agreed = clients_copy(build_terms(terms_text(made.config)), file, quiet)
    assert agreed.certificate is not None
    with np.load(made.folder / "part0.npz") as part:
        data = as_records(part["x"], part["y"])
    rows = np.arange(len(data))
    mechanism = agreed.certificate.client(0, rows, SystemSource())
    worker = Worker(agreed.terms, 0, agreed.initial(), agreed.objective, data, rows, 0, agreed.wire, mechanism)
    worker.client = Counters.restore(agreed.terms, {**found.client, "h": 0})
    worker.begin()
    worker._slots = mechanism.laid_out(ROUND, agreed.size, found.made["rows"].copy(), found.made["ends"].copy())
    worker.run(SLOTS)
    start = mechanism.start(worker.client.frame)
    return agreed.certificate.kind.parts(agreed.certificate, ROUND, start, worker._stepper)[0].tobytes()


@pytest.mark.slow
def test_a_client_killed_in_the_middle_of_a_long_round_goes_on_with_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    often: dict[str, Any] = {"checkpoint_every": 1e-9}
    with served(tmp_path) as made:
        made.start_server()
        made.start_client(1, run_noting, **often)
        made.start_client(0, run_held, **often)
        made.until((tmp_path / "client0.held").exists, f"slot {SLOT} of round {ROUND}")
        victim = made.clients[0]
        victim.kill()
        victim.join()
        (checkpoint,) = (tmp_path / "client0").glob("round-*.checkpoint")
        shutil.copy(checkpoint, tmp_path / "copy")
        made.start_client(0, run_noting, **often)
        made.wait()
        check(made)
        (resumed,) = [facts for facts in made.events("client0.log") if facts["event"] == "checkpoint_resumed"]
        assert (resumed["round"], resumed["slot"]) == (ROUND, SLOT)
        hidden = [facts for facts in made.events("client0.hidden") if facts["round"] == ROUND]
        assert len(hidden) == 1 and bytes.fromhex(hidden[0]["hidden"]) == never_killed(made, tmp_path / "copy")
        assert len(made.sent(0)[ROUND]) == 1 and not list(tmp_path.glob("client*/round-*"))


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch", "local", "batch-clip"])
def test_kills_of_clients_in_the_middle_of_rounds_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    rng, kills, rounds = some_seed(), times(25), max(5, times(25))
    raw = long_case(mechanism, rounds)
    if mechanism == "batch-clip":
        raw["privacy"]["clip"] = 0.05
    with federation(tmp_path, raw) as made:
        made.start_server()
        for c in range(5):
            made.start_client(c, run_slowly)
        for instant in sorted(rng.sample(range(4 * rounds), kills)):
            made.until(lambda at=instant: applied_in(made) >= at, f"{instant} updates")  # type: ignore[misc]
            CONTEXT.Event().wait(rng.uniform(0.0, 0.2))  # about a round; nothing depends on which instant it is
            c = rng.randrange(5)
            made.clients[c].kill()
            made.clients[c].join()
            made.start_client(c, run_slowly)
        made.wait()
        check(made)
        events = [facts["event"] for c in range(5) for facts in made.events(f"client{c}.log")]
        print(f"{kills} kills, {events.count('checkpoint_resumed')} rounds gone on with")
        assert events.count("checkpoint_resumed") > kills // 5 and "checkpoint_discarded" not in events
        assert not list(tmp_path.glob("client*/round-*"))
