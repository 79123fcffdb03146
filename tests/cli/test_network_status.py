"""`crescendo status` as a user meets it: the table, and one clear sentence where there is none to show."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.addresses import listening, place
from crescendo.cli.main import app
from crescendo.cli.show.show_status import StatusPrinter
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import UsageError
from crescendo.federation.agreement import build_terms
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.server.grpc_server import NetworkServer
from crescendo.network.server.service import Service
from crescendo.network.transport.channels import Endpoint
from crescendo.storage.journal.durable_server import DurableServer
from tests.cli.joining_clients import ONE, played
from tests.cli.refused_commands import here, refused, serve

__all__ = ["here"]  # a fixture: every test has a folder of its own


# -- the table


def federation(**changed: Any) -> dict[str, Any]:
    client = {
        "name": "client 12",
        "connected": False,
        "present": False,
        "round": 123_456,
        "lag": 12_345,
        "waited_for": True,
        "silent_seconds": 5000.0,
        "joined": True,
        "bytes_up": 123_456_789_012,
        "bytes_down": 999_999_999,
        "epsilon": 0.123,
        "epsilon_is": "bound",
        **changed,
    }
    told = {"federation": "trial", "finished": False, "k": 1, "rounds": 2, "epoch": 3, "late": 4}
    return {**told, "mechanism": "minibatch", "delta": 1e-6, "clients": [client]}


@pytest.fixture
def lines_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def lines(found: dict[str, Any], width: int = 80) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        StatusPrinter().show(found)
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("width", [80, 120])
def test_the_status_fits_a_terminal(width: int, lines_of: Callable[..., list[str]]) -> None:
    lines = lines_of(federation(), width)
    assert max(len(line) for line in lines) <= width and "…" not in "".join(lines)
    assert lines[0].strip() == "trial: round 1 of 2, epoch 3, 4 late"
    row = " ".join(next(line for line in lines if "client 12" in line).split())
    assert row == "client 12 absent 123,456 12,345 for it 83 min 123.5 GB 1.0 GB <= 0.123"


def test_a_bound_on_epsilon_is_called_one_and_a_tight_number_is_not(lines_of: Callable[..., list[str]]) -> None:
    assert "quick bound" in " ".join(lines_of(federation()))
    tight = " ".join(lines_of(federation(epsilon_is="tight")))
    assert "0.123" in tight and "<=" not in tight and "delta 1e-06" in tight


def test_without_a_mechanism_no_epsilon_is_shown(lines_of: Callable[..., list[str]]) -> None:
    bare = federation(epsilon=None, epsilon_is=None) | {"mechanism": "none", "delta": None}
    assert "no privacy mechanism, so no epsilon holds" in " ".join(lines_of(bare))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"connected": True, "present": True}, "yes"),
        ({"present": True}, "away"),
        ({"present": True, "joined": False, "silent_seconds": None}, "not yet"),
    ],
)
def test_the_status_says_who_is_here(changed: dict[str, Any], word: str, lines_of: Callable[..., list[str]]) -> None:
    assert f" {word} " in next(line for line in lines_of(federation(**changed), 120) if "client 12" in line)


def test_a_status_can_be_printed_where_only_ascii_can(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", out)
    StatusPrinter().show(federation(name="Élise"))
    out.flush()
    assert b"?lise" in out.buffer.getvalue()


def test_a_long_name_takes_lines_and_leaves_the_numbers_whole(lines_of: Callable[..., list[str]]) -> None:
    name = "a very long name [red] of an airline that nobody can fit into so narrow a column"
    lines = lines_of(federation(name=name))
    assert max(len(line) for line in lines) <= 80 and "123.5 GB" in "".join(lines)
    assert "[red]" in "".join(lines), "a name is not markup"


def test_watching_goes_on_while_the_server_is_started_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Iterator[Any] = iter(
        [federation(), UsageError("it does not answer"), federation(epsilon=0.456), KeyboardInterrupt()]
    )

    def ask(endpoint: Endpoint) -> dict[str, Any]:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    monkeypatch.setattr("crescendo.cli.show.show_status.ask_status", ask)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    StatusPrinter().watch(Endpoint("127.0.0.1:1"))  # and an interrupt is how one ends it
    shown = capsys.readouterr().out
    words = "Not up to date: it does not answer. A server exits with its run. Asking again."
    assert shown.index(words) < shown.index("0.456")


def test_watching_waits_for_a_server_that_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where, naps = Endpoint("127.0.0.1:1"), iter([None, KeyboardInterrupt()])

    def nap(seconds: float) -> None:
        if (interrupt := next(naps)) is not None:
            raise interrupt

    monkeypatch.setattr("time.sleep", nap)
    StatusPrinter().watch(where)
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("nothing is listening there") == 2 and "Asking again each second; Ctrl-C ends it." in shown


def test_watching_ends_at_once_where_waiting_cannot_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(endpoint: Endpoint) -> dict[str, Any]:
        raise UsageError("it has no status")

    monkeypatch.setattr("crescendo.cli.show.show_status.ask_status", ask)
    with pytest.raises(UsageError, match="no status"):
        StatusPrinter().watch(Endpoint("127.0.0.1:1"))


def test_watching_is_not_one_json_object() -> None:
    assert "choose one" in refused("status", "127.0.0.1:1", "--watch", "--json")


# -- folders of certificates


def join(certs: str) -> str:
    words = ("--data", "mine.csv", "--as", "alice", "--state", "mine", "--policy", "p.toml", "--certs", certs)
    return refused("join", "127.0.0.1:1", *words)


@pytest.mark.parametrize("tokens", [False, True], ids=["certificates", "tokens"])
def test_the_server_s_own_folder_is_not_for_asking(tokens: bool) -> None:
    make_certificates(Path("keys"), clients=["alice"], tokens=tokens)
    said = "the certificate in keys/server is a server's; use a client's or an aggregator's folder with --certs"
    assert said in refused("status", "127.0.0.1:1", "--certs", "keys/server")
    assert said in join("keys/server")


def test_the_authority_s_folder_is_nobody_s_own() -> None:
    make_certificates(Path("keys"), clients=["alice"])
    said = "keys/authority has neither a certificate nor a token"
    assert said in refused("status", "127.0.0.1:1", "--certs", "keys/authority") and said in join("keys/authority")


def test_another_s_certificate_is_called_so_before_anybody_is_asked() -> None:
    make_certificates(Path("keys"), clients=["alice", "bob"])
    said = "the certificate in keys/clients/bob is bob's, and --as says alice; "
    with pytest.raises(UsageError, match=said):
        place("127.0.0.1:1", Path("keys/clients/bob"), name="alice")
    assert place("127.0.0.1:1", Path("keys/clients/bob"), name="bob").address == "127.0.0.1:1"


def test_a_client_s_folder_is_not_for_serving() -> None:
    make_certificates(Path("keys"), clients=["alice"])
    assert "is a client's; use the folder of the server" in serve("--certs", "keys/clients/alice")


def test_the_folder_of_all_parties_is_not_one_party_s() -> None:
    make_certificates(Path("keys"), clients=["alice"])
    assert "keys holds the folders of several parties; " in join("keys")
    assert serve("--certs", "keys").endswith("name yours with --certs: keys/server\n")
    assert join("keys").endswith("name yours with --certs: keys/clients/alice\n")


def test_a_folder_that_was_copied_a_level_too_deep_is_found() -> None:
    make_certificates(Path("made"), clients=["alice"])
    shutil.copytree("made/clients/alice", "keys/alice")  # what `scp -r` does if keys is there already
    assert join("keys").endswith("name yours with --certs: keys/alice\n")


def test_an_address_of_this_machine_that_others_reach_is_not_called_another_machine_s() -> None:
    assert "0.0.0.0:7077 is not a loopback address, such as 127.0.0.1, so TLS is needed" in serve(listen="0.0.0.0:7077")


@pytest.mark.parametrize("days", [-100, 100])
def test_a_certificate_is_not_used_out_of_its_time(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    make_certificates(Path("keys"), clients=["alice"])
    monkeypatch.setattr("crescendo.network.transport.security.certificate_file.now", lambda: then)
    assert "run `crescendo certs` again" in serve("--certs", "keys/server")
    assert "is valid from" in refused("status", "127.0.0.1:1", "--certs", "keys/clients/alice")


def test_what_is_no_certificate_is_called_so() -> None:
    make_certificates(Path("keys"), clients=["alice"])
    Path("keys/clients/alice/cert.pem").write_text("nothing")
    assert "is not a certificate" in refused("status", "127.0.0.1:1", "--certs", "keys/clients/alice")


# -- what is said of a server that does not answer


def test_a_server_that_is_not_there_is_called_so() -> None:
    assert "nothing is listening there" in refused("status", "127.0.0.1:1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("served", "shown", "reason"),
    [
        ("keys/server", "others/clients/alice", "not of the authority in your --certs folder"),
        ("keys/server", None, "it hung up; --certs was left out, and it wants TLS"),
        (None, "keys/clients/alice", "does not speak TLS"),
        ("tokens/server", "struck", "says: no certificate or token that this server knows was shown"),
    ],
)
def test_a_connection_that_fails_is_explained(served: str | None, shown: str | None, reason: str) -> None:
    for folder in ("keys", "others", "tokens"):
        make_certificates(Path(folder), clients=["alice"], tokens=folder == "tokens")
    shutil.copytree("tokens/clients/alice", "struck")
    Path("struck/token").write_text("another")

    async def play() -> None:
        agreed = build_terms(terms_text(read(ONE)))
        with DurableServer(Path("served"), agreed.text, lambda text: agreed.terms, agreed.initial()) as durable:
            where = listening("127.0.0.1:0", None if served is None else Path(served))
            server = NetworkServer(Service(durable, agreed), admit=where.admit)
            port = await server.start(where.address, where.credentials)
            words = ["status", f"127.0.0.1:{port}", *(() if shown is None else ("--certs", shown))]
            try:
                assert reason in await asyncio.to_thread(refused, *words)
            finally:
                await server.stop()

    played(play)


SOUND = federation()


@pytest.mark.parametrize(
    "sent",
    [
        "no JSON \x1b]0;owned\x07",
        "[" * 100_000,
        "[]",
        '"text"',
        "{}",
        "1" * 10_000,
        json.dumps({**SOUND, "clients": 3}),
        json.dumps({**SOUND, "clients": [{}]}),
        json.dumps({**SOUND, "delta": "\x1b]0;owned\x07"}),
        json.dumps({**SOUND, "k": "\x1b]0;owned\x07"}),
        json.dumps({**SOUND, "clients": [{**SOUND["clients"][0], "name": {"\x1b": 1}}]}),
        json.dumps({**SOUND, "clients": [{**SOUND["clients"][0], "epsilon": "\n"}]}),
    ],
    ids=lambda sent: sent[:20] + sent[-20:],
)
def test_a_status_that_is_none_is_called_so_in_one_sentence(sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(self: Endpoint, timeout: float) -> str:
        return sent

    monkeypatch.setattr(Endpoint, "status", answer)
    result = CliRunner().invoke(app, ["status", "127.0.0.1:7077"])
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == "crescendo: the program at 127.0.0.1:7077 is not a Crescendo server of this version\n"


def test_texts_of_a_status_steer_no_terminal_and_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b]0;owned\x07\r\n\x9b2J\u202e\u2066\u2028" + "x" * 100_000

    async def answer(self: Endpoint, timeout: float) -> str:
        client = {**SOUND["clients"][0], "name": evil}
        return json.dumps({**SOUND, "federation": evil, "mechanism": evil, "delta": 1e-6, "clients": [client]})

    monkeypatch.setattr(Endpoint, "status", answer)
    for words in (["status", "127.0.0.1:7077"], ["status", "127.0.0.1:7077", "--json"]):
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code == 0 and len(shown.stdout) < 40_000
        assert all(line.isprintable() for line in shown.stdout.split("\n"))
