"""Mistakes on the command lines of a federation: one sentence each, said before anything is written or anybody is asked."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.core.messages import Settled
from crescendo.errors import DataError, Refused, UsageError
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.server.health import HealthPage
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.cli.joining_clients import ONE, OPEN, begun, joined, played
from tests.cli.refused_commands import here, refused, serve
from tests.network.live_server import live_server

__all__ = ["here"]  # a fixture: every test has a folder of its own

# -- serve


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "10.1.2.3:8080", "example.org:80", "[::]:80", "unix:80"])
def test_health_stays_on_this_machine(address: str) -> None:
    assert "/healthz has no lock" in serve("--health", address)


def test_health_stays_on_this_machine_with_certificates_too() -> None:
    make_certificates(Path("keys"))
    assert "/healthz has no lock" in serve("--health", "0.0.0.0:8080", "--certs", "keys/server")


@pytest.mark.parametrize(
    "address", ["", ":8080", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:" + "9" * 5000]
)
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    assert "is not HOST:PORT" in serve("--health", address)
    said = serve(listen=address)
    assert "is not HOST:PORT" in said and ("at most 65535" in said) is address.endswith(("65536", "999"))


def test_the_health_server_itself_refuses_to_listen_to_everybody() -> None:
    with pytest.raises(UsageError, match="no lock"):
        asyncio.run(HealthPage("0.0.0.0:0").serve(dict))


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_serve_lingers_for_a_number_of_seconds(seconds: str) -> None:
    assert "--linger must be a number of seconds" in serve(f"--linger={seconds}")


def test_terms_that_cannot_be_served_leave_no_folder() -> None:
    assert "serve.federation is missing" in serve(file="bare.toml")


def test_a_folder_that_cannot_be_made_is_refused_before_anything_takes_time() -> None:
    assert "mine.csv/served cannot be made (not a directory); name another" in serve(state="mine.csv/served")


def test_the_journal_is_kept_as_needed_or_all_of_it() -> None:
    assert serve("--keep", "some") == "crescendo: --keep must be needed or all, not 'some'\n"


def test_a_port_in_use_leaves_no_folder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "cannot be listened on" in serve(listen=where)
        assert "cannot be listened on" in serve("--health", where)


def test_a_port_in_use_is_noticed_before_the_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes its time."""
    monkeypatch.setattr(
        "crescendo.runs.serving.terms_and_cost", lambda config: pytest.fail("it was accounted for first")
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be listened on" in serve(listen=f"127.0.0.1:{taken.getsockname()[1]}")


def test_health_and_federation_cannot_share_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
    assert "cannot be listened on" in serve("--health", where, listen=where)


def test_a_folder_of_other_files_is_not_taken_for_a_state() -> None:
    Path("photos").mkdir()
    Path("photos", "cat.jpg").write_text("miaow")
    assert "not a federation's" in serve(state="photos")
    assert "is not a folder" in serve(state="p.toml")


# -- certs


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("",), "has no name"),
        (
            ("list",),
            "list is not a command of certs; there are make, request, sign, revoke; for a folder of that name write ./list",
        ),
        (
            ("requst", "alice"),
            "requst is not a command of certs; did you mean request? for a folder of that name write ./requst",
        ),
        (("keys", "--days", "0"), "at most 3650"),
        (("keys", "--days", "3651"), "at most 3650"),
        (("keys", "--days", "99999999999"), "at most 3650"),
        (("keys", "--host", ""), "is not a host's name"),
        (("keys", "--host", "a b"), "is not a host's name"),
        (("keys", "--host", "https://example.org"), "is not a host's name"),
        (("keys", "--host", "example.org:7077"), "is not a host's name"),
        (("keys", "--host", "x" * 64), "is not a host's name"),
        (("keys", "--client", ""), "cannot be a name"),
        (("keys", "--client", "alice", "--client", "ä" * 100), "too long for a folder's name"),
        (("keys", "--aggregator", "/" * 100), "too long for a folder's name"),
    ],
)
def test_certs_checks_everything_before_it_writes(words: tuple[str, ...], reason: str) -> None:
    assert reason in refused("certs", *words)


def test_a_new_host_is_not_silently_dropped() -> None:
    make_certificates(Path("keys"), hosts=["a.example"], clients=["alice"])
    sentence = refused("certs", "keys", "--host", "b.example", "--client", "bob")
    assert "keys/server has a certificate already, for a.example and not b.example" in sentence
    again = CliRunner().invoke(app, ["certs", "keys", "--host", "a.example", "--client", "bob"])
    assert again.exit_code == 0 and Path("keys/clients/bob/cert.pem").exists()
    Path("keys/server/ca.pem").unlink()  # as the sentence says
    assert CliRunner().invoke(app, ["certs", "keys", "--host", "b.example"]).exit_code == 0
    assert CliRunner().invoke(app, ["certs", "keys", "--host", "b.example"]).exit_code == 0


def test_a_new_aggregator_may_have_a_host_of_its_own() -> None:
    make_certificates(Path("keys"), hosts=["a.example"])
    words = ["certs", "keys", "--host", "10.0.0.7", "--aggregator", "edge"]
    assert [CliRunner().invoke(app, words).exit_code for _ in range(2)] == [0, 0]
    sentence = refused("certs", "keys", "--host", "10.0.0.8", "--aggregator", "edge")
    assert "keys/aggregators/edge has a certificate already, for 10.0.0.7 and not 10.0.0.8" in sentence
    assert "remove keys/aggregators/edge/ca.pem" in sentence


def test_certificates_for_this_machine_only_are_called_so() -> None:
    said = CliRunner().invoke(app, ["certs", "keys", "--host", "10.0.0.7", "--client", "alice"]).stdout
    assert "this machine only" not in said
    said = CliRunner().invoke(app, ["certs", "keys", "--aggregator", "edge"]).stdout
    assert "keys/aggregators/edge is valid on this machine only; for other machines give its --host" in said
    assert "this machine only" not in CliRunner().invoke(app, ["certs", "keys", "--client", "bob"]).stdout


def test_parties_of_a_lost_authority_are_not_mixed_with_those_of_a_new_one() -> None:
    make_certificates(Path("keys"))
    Path("keys/authority/ca.pem").unlink()
    with pytest.raises(DataError, match="put it back"):
        make_certificates(Path("keys"), clients=["alice"])


# -- join


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"--data": ""}, "records have no name"),
        ({"--data": "missing.csv"}, "there is no file missing.csv"),
        ({"--data": "winee"}, "did you mean 'wine'"),
        ({"--data": "."}, "is a folder"),
        ({"--as": ""}, "is not a client's name"),
        ({"--as": "a\nb"}, "is not a client's name"),
        ({"--part": "even"}, "choose one of iid"),
        ({"--part": ""}, "choose one of iid"),
        ({"--part": "column:"}, "names no column"),
        ({"--part": "iid", "--test": "1"}, "from 0 to less than 1"),
        ({"--part": "iid", "--test": "-0.1"}, "from 0 to less than 1"),
        ({"--part": "iid", "--test": "nan"}, "from 0 to less than 1"),
        ({"--test": "1"}, "from 0 to less than 1"),
        ({"--label": "c"}, "the columns of mine.csv are a, b"),
        ({"--checkpoint": "-1"}, "--checkpoint takes seconds of work, such as 10, or 0 for never, not -1"),
        ({"--checkpoint": "nan"}, "or 0 for never, not nan"),
    ],
)
def test_join_checks_its_own_words_before_it_asks_anybody(changed: dict[str, str], reason: str) -> None:
    """Nobody listens there: a client that asked first would try for ever."""
    words = {"--data": "mine.csv", "--as": "alice", "--state": "mine", "--policy": "p.toml", **changed}
    assert reason in refused("join", "127.0.0.1:1", *(f"{option}={value}" for option, value in words.items()))


def test_the_policy_in_the_help_is_one_and_a_missing_file_leads_there() -> None:
    from crescendo.cli.network_commands import POLICY
    from crescendo.federation.policy import Policy

    words = ("join", "127.0.0.1:1", "--data", "mine.csv", "--as", "alice", "--state", "mine", "--policy", "none.toml")
    assert "`crescendo join --help` shows one" in refused(*words)
    shown = CliRunner().invoke(app, ["join", "--help"]).stdout
    assert all(line in shown for line in POLICY.splitlines()), "the help has it line by line"
    Path("shown.toml").write_text(POLICY)
    assert Policy.read(Path("shown.toml")).mechanisms == ("minibatch",)


# -- the client's own guard


@pytest.mark.slow
def test_a_client_whose_ledger_is_behind_the_server_refuses_to_go_on(tmp_path: Path) -> None:
    """Even if the server itself has noticed nothing."""

    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await begun(on, tmp_path)
            on.service._join = lambda c, hello: False  # type: ignore[method-assign]
            real = on.service._welcome

            def welcome(c: int, hello: Any) -> Any:
                object.__setattr__(found := real(c, hello), "received", Settled(0, ((2, 3),)))
                return found

            on.service._welcome = welcome  # type: ignore[method-assign]
            with pytest.raises(Refused, match=r"has round 2 .* older copy"):
                await joined(on, tmp_path, OPEN)

    played(play)


@pytest.mark.slow
def test_a_finished_federation_is_closed_in_the_ledger(tmp_path: Path) -> None:
    async def play() -> None:
        async with live_server(tmp_path / "served", ONE) as on:
            await joined(on, tmp_path, OPEN)
            with open_ledger(tmp_path / "client" / "ledger.sqlite") as ledger:
                assert ledger._book.account(on.agreed.federation).closed
            assert (await joined(on, tmp_path, OPEN)).last == 3  # and can be looked at again

    played(play)
