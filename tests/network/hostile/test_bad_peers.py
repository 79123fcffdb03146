"""Bad peers: the server answers in one sentence or hangs up, holds a bounded memory, and goes on training with the good ones.

The fuzzer plays against a `serve` process with three sound clients, processes too; the quick version is part of every test run
and `make soak` runs the long one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import socket
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from crescendo.core.vectors import decode
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.network.protocol import wire_pb2 as pb
from crescendo.privacy.mechanisms.norm_limits import NormLimits
from crescendo.storage.journal.journal_entries import Received, from_bytes
from crescendo.storage.journal.replay import replay
from crescendo.storage.journal.segments import Segments
from crescendo.storage.ledger.ledger_file import LedgerFile
from tests.conformance.cases import PRIVATE, case
from tests.network.fuzzing import fuzz, fuzz_the_door
from tests.network.hostile_client import HostileClient
from tests.network.processes import CONTEXT, Federation, federation, run_server
from tests.network.raw_streams import DEADLINE, End, RawStream, channel_to, check_end, memory_of
from tests.soak import times

GOOD, BAD = (0, 1, 2), 3
MEMORY = 96 << 20  # what the server may grow by, whatever is done to it; what was seen is far below


def run_watched(run_file: str, port: int, state: str, log: str, linger: float, stderr: str) -> None:
    """A server's process. Strikes are lifted, so that each message is really looked at; what it says on stderr is kept."""
    from crescendo.network.transport import pending_streams, rate_limits

    rate_limits.STRIKES = rate_limits.FORGIVEN = rate_limits.JOINS = rate_limits.JOIN_RATE = 1e9
    pending_streams.HELLO_TIMEOUT = 2.0
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    run_server(run_file, port, state, log, linger)


def open_to_attack(folder: Path, rounds: int) -> Federation:
    """Three good clients, and a fourth place for the bad one."""
    raw = case(
        run={"wire": "float32"},
        data={"source": "synthetic:rows=400,features=4"},
        clients={"count": 4},
        schedule={"rounds": rounds, "sizes": {"kind": "constant", "size": 40}, "wait": {"rounds": 1}},
        privacy={"mechanism": "minibatch", **PRIVATE, "records": 2000},
        serve={"absent_after": 600.0},
    )
    made = federation(folder, raw)
    args = (
        str(folder / "federation.toml"),
        made.port,
        str(folder / "served"),
        str(folder / "server.log"),
        600.0,
        str(folder / "stderr"),
    )
    made.server = CONTEXT.Process(target=run_watched, args=args)
    made.server.start()
    for c in GOOD:
        made.start_client(c)
    return made


async def be_silent(port: int, streams: int) -> None:
    """Streams that say nothing, and connections that do not even speak HTTP: the former are hung up on."""
    sockets = []
    for n in range(streams):
        sockets.append(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE))
        sockets[-1].sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: n % 25])
    async with channel_to(port) as channel:
        lines = [RawStream(channel) for _ in range(streams)]
        for line in lines:
            end = await line.hear()
            assert isinstance(end, End), end
            check_end(end, [])
    for one in sockets:
        one.close()


async def attack(port: int, agreed: Agreement, pid: int, rng: random.Random, count: int) -> Counter[str]:
    """All of it, with a sound round in between: that one can only be completed if the good clients train on."""
    seen: Counter[str] = Counter()
    async with channel_to(port) as channel:
        bad = HostileClient(channel, agreed, BAD)
        await bad.behave()
        await fuzz(bad, rng, 50, below=2)  # warm
        before = memory_of(pid)
        for part in range(1, 6):
            seen += await fuzz(bad, rng, count * 4 // 25, below=part * agreed.terms.rounds // 6)
            seen += await fuzz_the_door(bad, rng, count // 25)
            await bad.join()
            await bad.behave()
        await be_silent(port, 30)
        await bad.behave()
        seen["grown"] = memory_of(pid) - before
        seen["joins"] = bad.joins
        assert seen["grown"] < MEMORY, f"{seen['grown'] >> 20} MiB more after {seen['messages']} messages"
        await bad.fire()
        assert bad.line is not None
        await bad.line.say(pb.ToServer(leave=pb.Leave(reason="enough")))
    return seen


def check_after(made: Federation, agreed: Agreement) -> None:
    """The model is what the journal adds up to; of the good clients it has what they charged, of the bad one nothing unsound."""
    assert made.model().tobytes() == replay(made.journal).tobytes()
    entries = [from_bytes(record.kind, record.body) for record in Segments(made.journal).records()]
    received = [entry for entry in entries if isinstance(entry, Received)]
    assert len({(entry.round, entry.client) for entry in received}) == len(received)
    limits = NormLimits(agreed.certificate, agreed.objective.size)
    for c in GOOD:
        file = LedgerFile(made.folder / f"client{c}" / "ledger.sqlite", read_only=True)
        charges = {entry.body["round"]: entry.body["sha256"] for entry in file.entries if entry.kind == "charge"}
        file.close()
        own = {entry.round: hashlib.sha256(entry.data).hexdigest() for entry in received if entry.client == c}
        assert own == charges, f"what the journal has of client {c} is not what it sent"
        assert len(own) == sum(agreed.terms.share(i, c) > 0 for i in range(agreed.terms.rounds))
    for entry in received:
        if entry.client == BAD:
            length = float(np.linalg.norm(decode(entry.data, agreed.wire, agreed.objective.size)))
            assert length <= limits.longest(entry.round, BAD)


def play(folder: Path, count: int, rounds: int, seed: int) -> Counter[str]:
    with open_to_attack(folder, rounds) as made:
        made.until(lambda: (folder / "served" / "terms.json").exists(), "the server serves")
        agreed = build_terms(json.loads((folder / "served" / "terms.json").read_text())["terms"])
        assert made.server is not None and made.server.pid is not None
        try:
            seen = asyncio.run(attack(made.port, agreed, made.server.pid, random.Random(seed), count))
        except BaseException:
            print(made.logs())
            raise
        made.wait()
        check_after(made, agreed)
        stderr = (folder / "stderr").read_text()
        strange = [line for line in stderr.splitlines() if "Error" in line and "DecodeError" not in line]
        assert not strange, strange[:5]
        return seen


@pytest.mark.slow
def test_a_thousand_mutated_messages_stop_nobody(tmp_path: Path) -> None:
    seen = play(tmp_path, count=1000, rounds=40, seed=1)
    assert seen["messages"] >= 1000 and seen["refused"] > 300


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
def test_ten_thousand_mutated_messages_stop_nobody(seed: int, tmp_path: Path) -> None:
    seen = play(tmp_path, count=times(12_000), rounds=600, seed=seed)
    print(dict(seen))
    assert seen["messages"] >= times(10_000) and seen["refused"] > times(3_000)
