"""`serve`, `join` and `status` as a user meets them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.errors import CrescendoError, Refused
from crescendo.network.client.join import CANNOT
from crescendo.network.server.liveness import LivenessLimits
from tests.cli.joining_clients import ONE, OPEN, begun, joined, played, records
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import live_server
from tests.network.processes import free_port


def test_a_client_takes_part_to_the_end_and_keeps_the_last_model(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            result = await joined(on, tmp_path, OPEN)
            assert result.last == 3 and on.service.durable.finished
            np.testing.assert_allclose(result.model, on.service.durable.model)
            with np.load(tmp_path / "client" / "model.npz", allow_pickle=False) as saved:
                assert saved["model"].tobytes() == np.asarray(result.model).tobytes()
            again = await joined(on, tmp_path, OPEN)  # it is over: nothing is computed any more
            assert again.last == 3

    played(play)


@pytest.mark.slow
def test_terms_that_the_policy_does_not_allow_are_declined_and_both_sides_log_why(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            log: list[dict[str, Any]] = []
            with pytest.raises(Refused, match="policy allows"):
                await joined(on, tmp_path, {"epsilon": 1.0, "delta": 1e-6}, log=log)
            assert [facts["event"] for facts in log] == ["declined"]
            told = on.events("declined")[0]["reason"]
            assert told == 'the terms ask for mechanism = "none", which this client\'s policy does not allow'

    played(play)


@pytest.mark.slow
def test_a_federation_that_would_overspend_the_data_set_is_declined_without_telling_what_is_left(
    tmp_path: Path,
) -> None:
    private = {**ONE, "privacy": {"mechanism": "minibatch", **PRIVATE, "records": 200}}

    async def play() -> None:
        async with live_server(tmp_path / "served", private) as on:
            log: list[dict[str, Any]] = []
            with pytest.raises(Refused, match="left"):
                await joined(on, tmp_path, {"epsilon": 0.01, "delta": 1e-5}, log=log)
            assert "spent or promised and 0.01 left" in log[-1]["reason"]
            assert [facts["reason"] for facts in on.events("declined")] == [CANNOT]
            assert not on.service.durable.instances

    played(play)


def test_changed_terms_are_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await joined(on, tmp_path, OPEN)
        changed = {**ONE, "schedule": {**ONE["schedule"], "rounds": 5}}
        async with live_server(tmp_path / "another", changed) as on:
            with pytest.raises(Refused, match="cannot change them"):
                await joined(on, tmp_path, OPEN)

    played(play)


def test_a_name_that_is_not_in_the_terms_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            with pytest.raises(Refused, match="not among the clients"):
                await joined(on, tmp_path, OPEN, name="mallory")

    played(play)


def test_a_client_put_back_from_a_backup_refuses_to_go_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            shutil.copytree(await begun(on, tmp_path), tmp_path / "backup")
            await joined(on, tmp_path, OPEN)
            shutil.rmtree(tmp_path / "client")
            (tmp_path / "backup").rename(tmp_path / "client")
            with pytest.raises(CrescendoError, match="older than what it sent"):
                await joined(on, tmp_path, OPEN)

    played(play)


def test_a_round_whose_bytes_are_gone_is_void_and_never_computed_again(tmp_path: Path) -> None:
    """It was charged, the client was killed before it could send, and then the outbox was lost."""
    from crescendo.federation.agreement import NOTHING_HIDDEN
    from crescendo.storage.ledger.open_ledger import open_ledger

    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            path = await begun(on, tmp_path) / "ledger.sqlite"
            with open_ledger(path) as ledger:
                ledger.release(on.agreed.federation, 0, NOTHING_HIDDEN, b"\0" * 40)
            with sqlite3.connect(path) as db:
                db.execute("delete from outbox")
            db.close()
            log: list[dict[str, Any]] = []
            result = await joined(on, tmp_path, OPEN, log=log)
            assert result.last == 3 and on.service.durable.finished
            assert [facts["rounds"] for facts in on.events("void")] == ["0"]

    played(play)


@pytest.mark.slow
def test_a_private_round_that_fails_is_void_for_the_server_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the client ended, the round was not charged, and the next start computed it again with fresh noise."""
    from crescendo.worker import Worker

    finish, failed = Worker.finish, []

    def fails_in_round_one(worker: Worker) -> Any:
        if worker.client.round == 1:
            failed.append(1)
            raise OverflowError("the wire's floats end before this number")
        return finish(worker)

    monkeypatch.setattr(Worker, "finish", fails_in_round_one)
    private = {**ONE, "privacy": {"mechanism": "minibatch", **PRIVATE, "records": 200}}

    async def play() -> None:
        async with live_server(tmp_path / "served", private) as on:
            log: list[dict[str, Any]] = []
            result = await joined(on, tmp_path, {"epsilon": 10.0, "delta": 1e-5}, log=log)
            assert result.last == 3 and on.service.durable.finished and failed == [1]
            assert [facts["rounds"] for facts in on.events("void")] == ["1"]
            assert [facts["round"] for facts in log if facts["event"] == "round_failed"] == [1]

    played(play)


def test_what_was_charged_and_not_sent_is_sent_byte_for_byte(tmp_path: Path) -> None:
    from crescendo.federation.agreement import NOTHING_HIDDEN
    from crescendo.storage.journal.journal_entries import Received, from_bytes
    from crescendo.storage.journal.segments import Segments
    from crescendo.storage.ledger.open_ledger import open_ledger

    data = np.arange(5.0).tobytes()

    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            path = await begun(on, tmp_path) / "ledger.sqlite"
            with open_ledger(path) as ledger:
                ledger.release(on.agreed.federation, 0, NOTHING_HIDDEN, data)
            await joined(on, tmp_path, OPEN)
        entries = [from_bytes(record.kind, record.body) for record in Segments(tmp_path / "served").records()]
        sent = {entry.round: entry.data for entry in entries if isinstance(entry, Received)}
        assert sorted(sent) == [0, 1, 2, 3] and sent[0] == data

    played(play)


def test_a_client_that_lost_its_folder_cannot_take_its_name_again(tmp_path: Path) -> None:
    async def play() -> None:
        two = case(clients={"count": 2}, schedule=ONE["schedule"])
        async with live_server(tmp_path / "served", two, LivenessLimits(600.0)) as on:
            fake = await on.join(0)
            await fake.send(0, np.ones(5))
            with pytest.raises(Refused, match="another instance"):
                await joined(on, tmp_path, OPEN)

    played(play)


# -- the command line


def crescendo(*words: str) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("serve", "missing.toml", "--listen", "127.0.0.1:0", "--state", "x"), "there is no run file"),
        (("serve", "ok.toml", "--listen", "nowhere", "--state", "x"), "is not HOST:PORT"),
        (("serve", "ok.toml", "--listen", "0.0.0.0:7077", "--state", "x"), "TLS is needed"),
        (("serve", "bare.toml", "--listen", "127.0.0.1:0", "--state", "x"), "serve.federation is missing"),
        (("join", "127.0.0.1:1", "--data", "a", "--as", "b", "--state", "x", "--policy", "none"), "no policy file"),
        (("join", "10.1.2.3:1", "--data", "a", "--as", "b", "--state", "x", "--policy", "p.toml"), "TLS is needed"),
        (("join", "127.0.0.1:1", "--data", "a", "--as", "b", "--state", "x", "--policy", "bad.toml"), "did you mean"),
        (("status", "127.0.0.1:1"), "does not answer"),
        (("status", "127.0.0.1"), "is not HOST:PORT"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ok.toml").write_text(read(ONE).to_toml())
    Path("bare.toml").write_text(read({k: v for k, v in ONE.items() if k != "serve"}).to_toml())
    Path("p.toml").write_text('mechanisms = ["none"]')
    Path("bad.toml").write_text("epsilonn = 1.0")
    found = crescendo(*words)
    assert found.exit_code == 1
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1 and reason in found.stderr


class Commands:
    """Commands that run beside the test: what each says on stdout is its answer, its log is read line by line as it comes.

    Nothing outlives the ``with``, and whatever goes wrong shows the logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._running = folder, dict[str, subprocess.Popen[str]]()
        self._logs: dict[str, list[str]] = {}

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()

    def start(self, name: str, *words: str) -> None:
        command, pipe = [sys.executable, "-m", "crescendo", *words, "--json"], subprocess.PIPE
        self._running[name] = subprocess.Popen(command, cwd=self._folder, text=True, stdout=pipe, stderr=pipe)
        self._logs[name] = []

    def until(self, name: str, event: str) -> dict[str, Any]:
        """The line of the log that says so; the command has ended if it never comes."""
        log = self._running[name].stderr
        assert log is not None
        for line in log:
            self._logs[name].append(line)
            found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            if found.get("event") == event:
                return found
        raise AssertionError(f"{name} ended before {event}: {self._logs}")

    def ended(self, name: str) -> str:
        """Its answer, once it has ended well."""
        out, rest = self._running[name].communicate(timeout=300)
        self._logs[name].append(rest)
        assert self._running[name].returncode == 0, self._logs
        return out


@pytest.mark.slow
def test_serve_join_status_and_health_on_the_command_line(tmp_path: Path) -> None:
    """Two clients; the second one comes after everybody has looked at the federation."""
    two = case(clients={"count": 2}, schedule=ONE["schedule"], serve={"names": ["alice", "bob"]})
    (tmp_path / "federation.toml").write_text(read(two).to_toml())
    (tmp_path / "policy.toml").write_text('mechanisms = ["none"]')
    records(tmp_path)
    health = f"127.0.0.1:{free_port()}"
    with Commands(tmp_path) as commands:
        commands.start(
            "server", "serve", "federation.toml", "--listen", "127.0.0.1:0", "--state", "served", "--health", health
        )
        where = f"127.0.0.1:{commands.until('server', 'serving')['port']}"
        member = ["--data", "mine.npz", "--policy", "policy.toml"]
        commands.start("alice", "join", where, "--as", "alice", "--state", "alice", *member)
        commands.until("alice", "joined")  # its welcome has arrived, so the server counts it as connected
        shown = crescendo("status", where, "--json")
        assert shown.exit_code == 0, shown.stderr
        assert [client["connected"] for client in json.loads(shown.stdout)["clients"]] == [True, False]
        assert "alice" in crescendo("status", where).stdout
        with urllib.request.urlopen(f"http://{health}/healthz", timeout=60) as answer:
            assert json.load(answer)["ok"] is True
        commands.start("bob", "join", where, "--as", "bob", "--state", "bob", *member)
        assert all(json.loads(commands.ended(name))["finished"] for name in ("alice", "bob", "server"))
    assert (tmp_path / "served" / "model.npz").exists() and (tmp_path / "bob" / "model.npz").exists()
