"""Certificates and tokens are taken back while the federation runs: open streams end, and new ones are refused."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.errors import DataError, UsageError
from crescendo.network.authority.certificate_requests import request_certificate, sign_request
from crescendo.network.authority.certificates import ISSUED, Authority, make_certificates
from crescendo.network.authority.revoking import revoke
from crescendo.network.transport.security.authenticator import Authenticator
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.revocation import Revocations
from crescendo.network.transport.security.tokens import TokenBook
from tests.network.transport.test_security import as_client, visit


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_certificates(tmp_path / "keys", clients=["alice", "bob"], aggregators=["edge"])
    return tmp_path / "keys"


def serial_of(folder: Path) -> int:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes()).serial_number


def test_a_revoked_certificate_is_refused_and_others_are_not(keys: Path) -> None:
    alice, bob = (as_client(keys / "clients" / name)[0] for name in ("alice", "bob"))
    assert visit(keys / "server", alice, "alice") == "in"
    revoke(keys, "alice")
    assert "revoked" in visit(keys / "server", alice, "alice")
    assert visit(keys / "server", bob, "bob") == "in"
    revoke(keys, "edge")
    assert "revoked" in visit(keys / "server", as_client(keys / "aggregators" / "edge")[0], "edge", relays=True)
    assert "revoked" in visit(keys / "server", alice, "alice")  # those before stay on the list


def test_a_renewed_certificate_gets_in_when_the_one_before_is_revoked_by_its_number(keys: Path, tmp_path: Path) -> None:
    old, before = as_client(keys / "clients" / "alice")[0], serial_of(keys / "clients" / "alice")
    place = keys / "clients" / "alice"
    sign_request(keys, request_certificate(place, Identity("client", "alice")).path, renew=True)
    found = CliRunner().invoke(app, ["certs", "revoke", f"{before:X}", "--keys", str(keys), "--json"])
    assert json.loads(found.stdout)["serials"] == [f"{before:x}"]
    assert "revoked" in visit(keys / "server", old, "alice")
    assert visit(keys / "server", as_client(place)[0], "alice") == "in"
    assert sorted(revoke(keys, "alice").serials) == sorted([f"{before:x}", f"{serial_of(place):x}"])  # by name: all


def test_certificates_of_older_versions_which_were_not_noted_are_revoked_too(keys: Path) -> None:
    (keys / "authority" / ISSUED).unlink()
    assert revoke(keys, "bob").serials == [f"{serial_of(keys / 'clients' / 'bob'):x}"]


def test_the_lists_of_the_server_and_of_every_aggregator_are_written(keys: Path) -> None:
    files = revoke(keys, "alice").files
    assert files == [keys / "server" / "revoked.pem", keys / "aggregators" / "edge" / "revoked.pem"]
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.parametrize("what", ["carol", "server", "0", "", "12ab"])
def test_what_was_never_issued_is_not_revoked(keys: Path, what: str) -> None:
    with pytest.raises(UsageError, match="nothing is revoked"):
        revoke(keys, what)
    assert not (keys / "server" / "revoked.pem").exists()


def test_a_list_that_another_authority_signed_is_refused_at_the_start(keys: Path, tmp_path: Path) -> None:
    make_certificates(tmp_path / "others", clients=["alice"])
    revoke(tmp_path / "others", "alice")
    strange = (tmp_path / "others" / "server" / "revoked.pem").read_bytes()
    for content in (strange, b"", b"nonsense"):
        (keys / "server" / "revoked.pem").write_bytes(content)
        with pytest.raises(DataError, match=r"revoked\.pem is not"):
            Authenticator.of(keys / "server")


def test_a_list_that_is_damaged_or_gone_later_leaves_the_last_one_in_force(keys: Path) -> None:
    revoke(keys, "alice")
    path = keys / "server" / "revoked.pem"
    shown = [(keys / "clients" / "alice" / "cert.pem").read_bytes()]
    held = Revocations(path, keys / "server" / "ca.pem")
    assert held.covers(shown)
    for spoil in (lambda: path.write_bytes(path.read_bytes()[:100]), path.unlink):
        spoil()
        with pytest.raises(DataError):
            held.refresh()
        assert held.covers(shown)
    revoke(keys, "bob")  # and a good one is taken up again
    held.refresh()
    assert held.covers([(keys / "clients" / "bob" / "cert.pem").read_bytes()])


def test_an_older_list_that_comes_back_takes_nothing_back(keys: Path) -> None:
    """It is signed as well as the newest: whoever copied a backup let those in again that were revoked since."""
    path, shown = keys / "server" / "revoked.pem", [(keys / "clients" / "bob" / "cert.pem").read_bytes()]
    revoke(keys, "alice")
    older = path.read_bytes()
    held = Revocations(path, keys / "server" / "ca.pem")
    revoke(keys, "bob")
    assert held.covers(shown)
    path.write_bytes(older)
    with pytest.raises(DataError, match="lacks 1 certificate"):
        held.refresh()
    assert held.covers(shown)


@pytest.mark.parametrize("lost", ["authority", "server"])
def test_a_list_that_was_lost_is_made_whole_from_the_others(keys: Path, lost: str) -> None:
    """Without the authority's own, the next revocation began anew and let those in again that were revoked before."""
    revoke(keys, "alice")
    (keys / lost / "revoked.pem").unlink()
    (keys / "aggregators" / "edge" / "revoked.pem").write_bytes(b"damaged")
    revoke(keys, "bob")
    held = Revocations(keys / "server" / "revoked.pem", keys / "server" / "ca.pem")
    assert all(held.covers([(keys / "clients" / name / "cert.pem").read_bytes()]) for name in ("alice", "bob"))


def test_commands_at_once_come_one_after_the_other(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read the list and wrote its own: of twelve revocations at once four were left, and most had said that all is well."""
    at_once, turns = list[str](), list[threading.Thread]()
    signed = Authority.revocation_list

    def meanwhile(self: Authority, serials: Iterable[int]) -> bytes:
        if not turns:  # another one begins after this one has read the list, and has all the time that it wants
            turns.append(threading.Thread(target=lambda: at_once.extend(revoke(keys, "bob").serials)))
            turns[0].start()
            turns[0].join(0.05)
        return signed(self, serials)

    monkeypatch.setattr(Authority, "revocation_list", meanwhile)
    revoke(keys, "alice")
    turns[0].join()
    held = Revocations(keys / "server" / "revoked.pem", keys / "server" / "ca.pem")
    assert at_once and all(
        held.covers([(keys / "clients" / name / "cert.pem").read_bytes()]) for name in ("alice", "bob")
    )


def test_a_certificate_that_cannot_be_read_counts_as_revoked(keys: Path) -> None:
    revoke(keys, "alice")
    assert Revocations(keys / "server" / "revoked.pem", keys / "server" / "ca.pem").covers([b"?"])


def test_the_list_is_an_ordinary_one_that_other_tools_read(keys: Path) -> None:
    revoke(keys, "alice")
    found = x509.load_pem_x509_crl((keys / "server" / "revoked.pem").read_bytes())
    assert [one.serial_number for one in found] == [serial_of(keys / "clients" / "alice")]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(
        cadata=found.public_bytes(Encoding.PEM).decode() + (keys / "server" / "ca.pem").read_text()
    )


def test_a_token_is_struck_off_every_list(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_certificates(keys, clients=["alice", "bob"], aggregators=["edge"], tokens=True)
    assert len(revoke(keys, "alice").tokens) == 1
    for place in (keys / "server", keys / "aggregators" / "edge"):
        assert {known.name for known in TokenBook.read(place / "tokens.json").owners.values()} == {"bob", "edge"}
    assert not (keys / "server" / "revoked.pem").exists()  # its clients have no certificates
