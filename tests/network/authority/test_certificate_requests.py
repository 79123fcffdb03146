"""A party makes its own key and asks for a certificate; the authority takes its name and its public key and nothing else."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.errors import DataError, UsageError
from crescendo.network.authority.certificate_requests import read_request, request_certificate, sign_request
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_folder import PartyFolder
from tests.network.transport.test_security import as_client, visit

ALICE = Identity("client", "alice")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_certificates(tmp_path / "keys")
    return tmp_path / "keys"


def given_back(keys: Path, own: Path, kind: str = "clients") -> None:
    """What the authority sends back is copied to the party's folder."""
    for name in ("cert.pem", "ca.pem"):
        (own / name).write_bytes((keys / kind / "alice" / name).read_bytes())


def csr(
    path: Path, *, key: Any = None, subject: str | None = "alice", names: list[Any] | None = None, **more: Any
) -> Path:
    """A request that another tool has made."""
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, subject)] if subject is not None else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([*parts, *more.get("parts", ())]))
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension in more.get("extensions", ()):
        builder = builder.add_extension(extension, critical=True)
    if "password" in more:
        builder = builder.add_attribute(x509.oid.AttributeOID.CHALLENGE_PASSWORD, more["password"])
    key = key or ec.generate_private_key(ec.SECP256R1())
    made = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_client_that_made_its_own_key_gets_in_under_its_name_and_the_key_never_left(
    keys: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    made = request_certificate(own, ALICE)
    assert stat.S_IMODE((own / "key.pem").stat().st_mode) == 0o600 and stat.S_IMODE(own.stat().st_mode) == 0o700
    signed = sign_request(keys, made.path)
    assert signed.fingerprint == made.fingerprint
    secret = (own / "key.pem").read_bytes()
    assert not any(path.read_bytes() == secret for path in keys.rglob("*.pem"))
    assert not (keys / "clients" / "alice" / "key.pem").exists()
    given_back(keys, own)
    assert visit(keys / "server", as_client(own)[0], "alice") == "in"
    assert "no certificate or token of bob was shown" in visit(keys / "server", as_client(own)[0], "bob")


def test_a_certificate_says_what_the_authority_says_and_not_what_was_asked_for(keys: Path, tmp_path: Path) -> None:
    signed = sign_request(keys, request_certificate(tmp_path / "own", ALICE).path, days=5).certificate
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    uses = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == [ALICE.uri]
    assert (signed.not_valid_after_utc - signed.not_valid_before_utc).days == 5


ROOT = x509.BasicConstraints(ca=True, path_length=None)
SERVES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
MORE = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Evil")]
URI = x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"extensions": [ROOT]}, "asks for more than a name and a key"),
        ({"extensions": [SERVES]}, "asks for more than a name and a key"),
        ({"password": b"let me in"}, "asks for more than a name and a key"),
        ({"parts": MORE}, "more of a subject"),
        ({"subject": None}, "does not have one name"),
        ({"names": [x509.DNSName("server.example.org")]}, "does not have one name"),
        ({"names": [URI(ALICE.uri), URI("urn:crescendo:client:bob")]}, "does not have one name"),
        ({"names": [URI("urn:crescendo:client:bob")]}, "contradict"),
        ({"names": [URI("urn:crescendo:client:%61lice")]}, "contradict"),
        ({"names": [URI("urn:crescendo:king:alice")]}, "contradict"),
        ({"subject": "al\x1b[2Jice"}, "cannot be a name"),
        ({"key": rsa.generate_private_key(65537, 1024)}, "of a kind that is not accepted"),
        ({"key": ec.generate_private_key(ec.SECP521R1())}, "of a kind that is not accepted"),
        ({"key": ed25519.Ed25519PrivateKey.generate()}, "of a kind that is not accepted"),
    ],
)
def test_a_request_that_asks_for_more_is_refused_in_one_sentence(
    asked: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises((DataError, UsageError), match=says) as error:
        read_request(csr(tmp_path / "odd.pem", **asked))
    assert str(error.value).isprintable()


def test_a_request_of_another_tool_is_the_client_of_its_common_name(tmp_path: Path) -> None:
    assert read_request(csr(tmp_path / "csr.pem"))[0] == ALICE


def test_a_request_that_its_own_key_did_not_sign_is_refused(tmp_path: Path) -> None:
    import ssl

    der = bytearray(ssl.PEM_cert_to_DER_cert(_as_certificate(csr(tmp_path / "csr.pem").read_text())))
    der[-1] ^= 1
    forged = ssl.DER_cert_to_PEM_cert(bytes(der)).replace(" CERTIFICATE-", " CERTIFICATE REQUEST-")
    (tmp_path / "forged.pem").write_text(forged)
    with pytest.raises(DataError, match=r"its sender may not have that key|is not a certificate request"):
        read_request(tmp_path / "forged.pem")


def _as_certificate(pem: str) -> str:
    return pem.replace(" CERTIFICATE REQUEST-", " CERTIFICATE-")


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"-----BEGIN CERTIFICATE REQUEST-----\n" + b"A" * 200_000])
def test_what_is_no_request_is_called_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_bytes(content)
    for path in (tmp_path / "none.pem", tmp_path / "missing.pem", tmp_path):
        with pytest.raises(DataError, match=r"is not a certificate request|cannot be read"):
            read_request(path)


def test_a_name_that_has_a_certificate_gets_another_only_to_renew_it(keys: Path, tmp_path: Path) -> None:
    """A stranger may ask in the name of a party."""
    first = sign_request(keys, request_certificate(tmp_path / "own", ALICE).path)
    before = sorted((path, path.read_bytes()) for path in keys.rglob("*.*"))
    with pytest.raises(UsageError, match="has a certificate in"):
        sign_request(keys, request_certificate(tmp_path / "strange", ALICE).path)
    assert sorted((path, path.read_bytes()) for path in keys.rglob("*.*")) == before
    again = sign_request(keys, request_certificate(tmp_path / "own", ALICE).path, renew=True)
    assert again.before == first.certificate.serial_number


def test_a_request_gets_the_role_that_the_authority_says(keys: Path, tmp_path: Path) -> None:
    path = request_certificate(tmp_path / "edge", Identity("aggregator", "alice")).path
    with pytest.raises(UsageError, match="if that is meant, add --role aggregator"):
        sign_request(keys, path)
    sign_request(keys, path, role="aggregator", hosts=["edge.example.org"])
    given_back(keys, tmp_path / "edge", "aggregators")
    assert visit(keys / "server", as_client(tmp_path / "edge")[0], "alice", relays=True) == "in"
    with pytest.raises(UsageError, match="leave --host out"):
        sign_request(keys, request_certificate(tmp_path / "own", ALICE).path, hosts=["a.example.org"])


def test_only_names_of_the_federation_are_signed_where_they_are_known(keys: Path, tmp_path: Path) -> None:
    path = request_certificate(tmp_path / "own", ALICE).path
    with pytest.raises(UsageError, match="which the federation does not name"):
        sign_request(keys, path, names=["bob"])
    sign_request(keys, path, names=["bob", "alice"])


def test_clients_with_tokens_ask_for_no_certificates(tmp_path: Path) -> None:
    make_certificates(tmp_path / "keys", clients=["bob"], tokens=True)
    with pytest.raises(UsageError, match="show tokens"):
        sign_request(tmp_path / "keys", request_certificate(tmp_path / "own", ALICE).path)
    with pytest.raises(UsageError, match="has a token"):
        request_certificate(tmp_path / "keys" / "clients" / "bob", Identity("client", "bob"))


def test_the_old_key_stays_in_use_until_the_new_certificate_has_come(keys: Path, tmp_path: Path) -> None:
    own, server = tmp_path / "own", keys / "server"
    sign_request(keys, request_certificate(own, ALICE).path)
    given_back(keys, own)
    old = (own / "key.pem").read_bytes()
    asked = request_certificate(own, ALICE)
    assert request_certificate(own, ALICE).fingerprint == asked.fingerprint  # as often as one likes
    assert (own / "key.pem").read_bytes() == old and (own / "next-key.pem").exists()
    assert stat.S_IMODE((own / "next-key.pem").stat().st_mode) == 0o600
    credentials = PartyFolder(own).client_credentials()
    assert visit(server, credentials(), "alice") == "in"
    sign_request(keys, asked.path, renew=True)
    given_back(keys, own)
    new = credentials()  # the same process, without a restart
    assert visit(server, new, "alice") == "in"
    assert request_certificate(own, ALICE).fingerprint != asked.fingerprint  # and so on, the next time
    assert (own / "key.pem").read_bytes() != old and visit(server, credentials(), "alice") == "in"


def test_another_party_s_folder_is_not_asked_from(keys: Path, tmp_path: Path) -> None:
    sign_request(keys, request_certificate(tmp_path / "own", ALICE).path)
    given_back(keys, tmp_path / "own")
    with pytest.raises(UsageError, match='has the certificate of client "alice" and not of client "bob"'):
        request_certificate(tmp_path / "own", Identity("client", "bob"))


def test_the_commands_say_what_to_send_where(keys: Path, tmp_path: Path) -> None:
    def run(*words: object) -> Any:
        return CliRunner().invoke(app, ["certs", *map(str, words)])

    own = tmp_path / "own"
    asked = run("request", "alice", "--keys", own)
    fingerprint = asked.stdout.strip().rpartition(" ")[2]
    assert asked.exit_code == 0 and len(fingerprint) == 64 and "PRIVATE" not in asked.stdout
    signed = run("sign", own / "request.pem", "--keys", keys)
    assert signed.exit_code == 0 and fingerprint in signed.stdout and "cert.pem and ca.pem from" in signed.stdout
    again = run("sign", own / "request.pem", "--keys", keys, "--renew", "--json")
    found = json.loads(again.stdout)
    assert found["key_sha256"] == fingerprint and found["name"] == "alice" and found["before"]
    refused = run("sign", own / "request.pem", "--keys", tmp_path / "nowhere")
    assert refused.exit_code == 1 and "there is no authority in" in refused.stderr and refused.stderr.count("\n") == 1
