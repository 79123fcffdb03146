"""Kill anybody at any instant: the run ends all the same, nothing is lost, nothing is sent twice with other bytes.

The quick version is part of every test run; `make soak` runs the long one.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from crescendo.apps.terms import build_terms, terms_text
from crescendo.errors import DataError
from crescendo.runtimes.durable import replay
from crescendo.runtimes.entries import Received, Voided, from_bytes
from crescendo.runtimes.journal import read_records
from crescendo.runtimes.ledger_file import LedgerFile
from crescendo.runtimes.store import open_ledger
from tests.conformance.cases import PRIVATE, case
from tests.runtimes.network.processes import CONTEXT, Federation, federation
from tests.runtimes.network.proxy import BadNetwork

LONG: dict[str, Any] = {"rounds": 40, "sizes": {"kind": "constant", "size": 500}}


def long_case(mechanism: str, rounds: int) -> dict[str, Any]:
    schedule = {**LONG, "rounds": rounds, "wait": {"rounds": 1}}
    privacy = {} if mechanism == "none" else {"privacy": {"mechanism": mechanism, **PRIVATE, "records": 2000}}
    return case(
        run={"wire": "float32"},
        data={"source": "synthetic:rows=1000,features=4"},
        schedule=schedule,
        serve={"absent_after": 600.0},
        **privacy,
    )


def entries_in(made: Federation) -> int:
    """How many entries the journal holds; it is read while the server writes it."""
    try:
        return sum(1 for _ in read_records(made.journal)) if made.journal.exists() else 0
    except (OSError, DataError):
        return 0  # it is being made


def kill_at_random(made: Federation, rng: random.Random, kills: int, whom: str) -> int:
    """Start the federation, and kill processes all along the run, each at a random number of entries and a moment later."""
    made.start()
    pairs = made.config.schedule.rounds or 0
    instants = sorted(rng.sample(range(pairs * len(made.names)), kills))
    for instant in instants:
        made.until(lambda at=instant: entries_in(made) >= at, f"{instant} entries")  # type: ignore[misc]
        CONTEXT.Event().wait(rng.uniform(0.0, 0.05))  # an instant that nobody knows; nothing depends on which
        victims: list[int | None] = [c for c, process in made.clients.items() if process.is_alive()]
        victims = [None] if whom == "server" else victims if whom == "clients" else [None, *victims]
        if not victims:
            continue
        victim = rng.choice(victims)
        process = made.server if victim is None else made.clients[victim]
        assert process is not None
        process.kill()
        process.join()
        made.start_server() if victim is None else made.start_client(victim)
    return kills


def check(made: Federation) -> None:
    """Everything that must hold of a federation after its end, whoever was killed on the way."""
    agreed = build_terms(terms_text(made.config))
    terms = agreed.terms
    entries = [from_bytes(record.kind, record.body) for record in read_records(made.journal)]
    received = {(entry.round, entry.client): entry for entry in entries if isinstance(entry, Received)}
    void = {(entry.round, entry.client) for entry in entries if isinstance(entry, Voided)}
    assert len(received) == sum(isinstance(entry, Received) for entry in entries), "an update was applied twice"
    pairs = {(i, c) for i in range(terms.rounds) for c in range(terms.clients) if terms.share(i, c)}
    assert set(received) | void == pairs and not set(received) & void
    assert made.model().tobytes() == replay(made.journal).tobytes(), "the model is not what the journal adds up to"
    for c, name in enumerate(made.names):
        path = made.folder / f"client{c}" / "ledger.sqlite"
        file = LedgerFile(path, read_only=True)
        charges = {entry.body["round"]: entry.body["sha256"] for entry in file.entries if entry.kind == "charge"}
        assert len(charges) == sum(entry.kind == "charge" for entry in file.entries)
        file.close()
        for (i, client), entry in received.items():
            if client == c:
                assert hashlib.sha256(entry.data).hexdigest() == charges[i], f"{name} sent other bytes in round {i}"
        with open_ledger(path, read_only=True) as ledger:
            if agreed.certificate is not None:
                total = ledger.summary()
                assert total["spent"]["epsilon"] <= total["promised"]["epsilon"] <= total["epsilon"]
            plan = [event for event in agreed.plan(c) if event is not None]
            assert len(charges) <= len(plan)
            assert not ledger.unacknowledged(agreed.federation)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["none", "minibatch", "local"])
def test_a_few_kills_of_anybody_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    with federation(tmp_path, long_case(mechanism, rounds=60)) as made:
        kill_at_random(made, random.Random(f"quick {mechanism}"), kills=8, whom="both")
        made.wait()
        check(made)


@pytest.mark.slow
def test_everybody_stops_well_when_asked_and_goes_on_later(tmp_path: Path) -> None:
    with federation(tmp_path, long_case("none", rounds=150)) as made:
        made.start()
        made.until(lambda: entries_in(made) > 100, "100 entries")
        for process in [*made.clients.values(), made.server]:
            assert process is not None and process.pid is not None
            os.kill(process.pid, signal.SIGTERM)
        made.join(*made.clients.values())
        made.stop_server()
        assert [made.events(f"client{c}.log")[-1]["event"] for c in range(5)] == ["stopped"] * 5
        made.start()
        made.wait()
        check(made)
        assert not [facts for facts in made.events("server.log") if facts["event"] in ("alarm", "refused", "void")]


@pytest.mark.slow
def test_a_network_that_cuts_and_delays_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random("bad network")
    with federation(tmp_path, long_case("none", rounds=60)) as made, BadNetwork(made.port, rng) as network:
        made.start_server()
        for c in range(len(made.names)):
            made.start_client(c, port=network.port)
        made.wait()
        check(made)
        assert network.cuts > 10


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "minibatch"])
def test_kills_on_a_network_that_cuts_and_delays_lose_nothing(mechanism: str, tmp_path: Path) -> None:
    rng = random.Random(random.SystemRandom().getrandbits(64))
    with federation(tmp_path, long_case(mechanism, rounds=400)) as made, BadNetwork(made.port, rng) as network:
        made.client_port = network.port
        kill_at_random(made, rng, kills=50, whom="both")
        made.wait()
        check(made)


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["none", "local"])
@pytest.mark.parametrize("whom", ["server", "clients", "both"])
def test_fifty_kills_lose_nothing(mechanism: str, whom: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")
    with federation(tmp_path, long_case(mechanism, rounds=600)) as made:
        kill_at_random(made, random.Random(seed), kills=50, whom=whom)
        made.wait()
        check(made)
