"""TLS, mutual TLS and tokens over real sockets: who gets in, under which name, and what is said to those who do not."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import stat
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.errors import DataError, PeerError, UsageError
from crescendo.network.authority.certificates import make_certificates
from crescendo.network.transport.security.address import Address
from crescendo.network.transport.security.authenticator import Authenticator, refusal
from crescendo.network.transport.security.certificate_file import shown_certificate
from crescendo.network.transport.security.identity import Identity
from crescendo.network.transport.security.party_folder import PartyFolder
from crescendo.network.transport.security.tokens import TokenBook


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutual")
    make_certificates(folder, clients=["alice", "Blue Airways"], aggregators=["edge"])
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    make_certificates(folder, clients=["alice", "bob"], aggregators=["edge"], tokens=True)
    return folder


def visit(
    server: Path, credentials: Any, name: str, token: str = "", host: str = "127.0.0.1", relays: bool = False
) -> str:
    """One call to a server that lives in ``server`` (a folder): "in", or why not."""

    async def door(request: bytes, context: Any) -> bytes:
        try:
            keeper = Authenticator.of(server)
            (keeper.aggregator if relays else keeper)(name, token, context)
        except PeerError as error:
            return str(error).encode()
        return b"in"

    async def run() -> str:
        listening = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(door)
        listening.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("T", {"Ask": handler}),))
        port = listening.add_secure_port("127.0.0.1:0", PartyFolder(server).server_credentials())
        await listening.start()
        address = f"{host}:{port}"
        make = grpc.aio.insecure_channel if credentials is None else grpc.aio.secure_channel
        try:
            async with make(address, *([] if credentials is None else [credentials])) as channel:
                answer: bytes = await channel.unary_unary("/T/Ask")(b"", timeout=60)
                return answer.decode()
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        finally:
            await listening.stop(None)

    return asyncio.run(run())


def as_client(folder: Path) -> tuple[Any, str]:
    return PartyFolder(folder).client_credentials()(), PartyFolder(folder).token()()


# -- mutual TLS


def test_a_client_gets_in_under_the_name_in_its_certificate(mutual: Path) -> None:
    for name in ("alice", "Blue Airways"):
        assert visit(mutual / "server", as_client(mutual / "clients" / name)[0], name) == "in"


def test_a_client_cannot_come_as_another(mutual: Path) -> None:
    answer = visit(mutual / "server", as_client(mutual / "clients" / "alice")[0], "Blue Airways")
    assert answer.startswith("no certificate or token of Blue Airways was shown")


def test_an_aggregator_is_not_a_client(mutual: Path) -> None:
    edge = as_client(mutual / "aggregators" / "edge")[0]
    assert "was shown" in visit(mutual / "server", edge, "edge")
    assert visit(mutual / "server", edge, "") == "in", "it may ask for the status"


@pytest.mark.parametrize("kind", ["mutual", "tokens"])
def test_a_client_is_not_an_aggregator(kind: str, request: pytest.FixtureRequest) -> None:
    """An aggregator is believed about the names below it, so a client's own proof must not make it one."""
    folder: Path = request.getfixturevalue(kind)
    alice, edge = as_client(folder / "clients" / "alice"), as_client(folder / "aggregators" / "edge")
    for (credentials, token), name in ((alice, "alice"), (alice, "edge"), (edge, "alice"), (edge, "other")):
        assert "was shown" in visit(folder / "server", credentials, name, token, relays=True)
    assert visit(folder / "server", edge[0], "edge", edge[1], relays=True) == "in"


def test_without_a_certificate_there_is_no_connection(mutual: Path, tokens: Path) -> None:
    authority = (mutual / "server" / "ca.pem").read_bytes()
    assert visit(mutual / "server", grpc.ssl_channel_credentials(authority), "alice") == "UNAVAILABLE"
    assert visit(mutual / "server", None, "alice") == "UNAVAILABLE", "in the clear"


def test_a_certificate_of_another_authority_is_not_accepted_by_either_side(mutual: Path, tmp_path: Path) -> None:
    make_certificates(tmp_path, clients=["alice"])
    stranger = tmp_path / "clients" / "alice"
    assert visit(mutual / "server", as_client(stranger)[0], "alice") == "UNAVAILABLE", "the client distrusts the server"
    (stranger / "ca.pem").write_bytes((mutual / "server" / "ca.pem").read_bytes())
    assert visit(mutual / "server", as_client(stranger)[0], "alice") == "UNAVAILABLE", "the server distrusts the client"


def test_a_client_s_certificate_cannot_stand_in_for_the_server(mutual: Path, tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        content = (mutual / "clients" / "alice" / name).read_bytes()
        security_file = tmp_path / name
        security_file.touch(0o600)
        security_file.write_bytes(content)
    victim = as_client(mutual / "clients" / "Blue Airways")[0]
    assert visit(tmp_path, victim, "Blue Airways", host="localhost") == "UNAVAILABLE"


def test_a_certificate_for_another_host_is_not_accepted(tmp_path: Path) -> None:
    make_certificates(tmp_path, hosts=["elsewhere.example"], clients=["alice"])
    assert visit(tmp_path / "server", as_client(tmp_path / "clients" / "alice")[0], "alice") == "UNAVAILABLE"


def test_a_pinned_server_is_the_only_one(mutual: Path, tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    def der(folder: Path) -> bytes:
        return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes()).public_bytes(Encoding.DER)

    alice = mutual / "clients" / "alice"
    pinned = PartyFolder(alice).client_credentials(der(mutual / "server"))()
    assert visit(mutual / "server", pinned, "alice") == "in"
    other = PartyFolder(alice).client_credentials(der(mutual / "aggregators" / "edge"))()
    assert visit(mutual / "server", other, "alice") == "UNAVAILABLE", (
        "of the same authority, but not the one that was pinned"
    )


def test_the_certificate_that_a_server_shows_can_be_held_against_a_fingerprint(mutual: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    async def run() -> bytes:
        listening = grpc.aio.server()
        port = listening.add_secure_port("127.0.0.1:0", PartyFolder(mutual / "server").server_credentials())
        await listening.start()
        try:
            return await asyncio.to_thread(shown_certificate, f"127.0.0.1:{port}")
        finally:
            await listening.stop(None)

    own = x509.load_pem_x509_certificate((mutual / "server" / "cert.pem").read_bytes())
    assert hashlib.sha256(asyncio.run(run())).digest() == own.fingerprint(SHA256())


# -- tokens


def test_a_token_opens_the_door_to_its_own_name_only(tokens: Path) -> None:
    credentials, token = as_client(tokens / "clients" / "alice")
    assert visit(tokens / "server", credentials, "alice", token) == "in"
    for name, shown in (("bob", token), ("alice", ""), ("alice", token[:-1]), ("nobody", token), ("alice", "é" * 40)):
        assert visit(tokens / "server", credentials, name, shown) == refusal(name)
    assert visit(tokens / "server", credentials, "", "wrong") == refusal(""), "not even the status"


def test_the_server_holds_no_token(tokens: Path) -> None:
    everything = b"".join(path.read_bytes() for path in (tokens / "server").iterdir())
    for name in ("alice", "bob"):
        assert PartyFolder(tokens / "clients" / name).token()().encode() not in everything


def test_a_name_that_is_struck_off_the_list_stays_out_at_once(tokens: Path, tmp_path: Path) -> None:
    listed = tmp_path / "tokens.json"
    listed.write_bytes((tokens / "server" / "tokens.json").read_bytes())
    door, token = Authenticator(listed), PartyFolder(tokens / "clients" / "alice").token()()
    door("alice", token, None)
    kept = [entry for entry in json.loads(listed.read_text()) if entry["name"] != "alice"]
    listed.write_text(json.dumps(kept))
    with pytest.raises(PeerError, match="was shown"):
        door("alice", token, None)


def test_the_answer_to_a_wrong_secret_tells_nothing_about_names_or_secrets(tokens: Path) -> None:
    door = Authenticator.of(tokens / "server")
    said = set()
    for name in ("alice", "unheard of"):
        with pytest.raises(PeerError) as error:
            door(name, "a-guess", None)
        said.add(str(error.value).replace(name, "NAME"))
    assert len(said) == 1 and "a-guess" not in said.pop()


def test_every_stored_hash_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {TokenBook.hash(str(n)): Identity("client", str(n)) for n in range(5)}
    book = TokenBook(owners)
    compared: list[str] = []
    real = hmac.compare_digest

    def compare(a: Any, b: Any) -> bool:
        compared.append(b)
        return bool(real(a, b))

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert book.owner("0") == Identity("client", "0") and book.owner("x") is None
    assert compared == [*owners, *owners]


# -- addresses and files


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("127.0.0.1:1", True),
        ("127.8.9.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/crescendo", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("127.0.0.1.example.org:1", False),
        ("localhost.example.org:1", False),
    ],
)
def test_only_loopback_may_go_without_tls(address: str, inside: bool) -> None:
    assert Address(address).is_loopback is inside
    if inside:
        Address(address).check(None)
    else:
        with pytest.raises(UsageError, match="TLS is needed; make certificates with `crescendo certs`"):
            Address(address).check(None)
    Address(address).check(Path("folder"))


@pytest.mark.parametrize(
    "address", ["::1:7077", "::1", "2001:db8::7:7077", "::", "[::1:7077", "::1]:7077", "::ffff:10.0.0.7:1"]
)
def test_an_ipv6_address_without_brackets_is_refused_with_how_to_write_it(address: str) -> None:
    with pytest.raises(UsageError, match=r"an IPv6 address stands in brackets, for example \[::1\]:7077"):
        Address(address).check(None)


@pytest.mark.parametrize(
    "address", ["[]:7077", "[10.0.0.7]:7077", "[host]:7077", "[[::1]]:7077", "[::zz]:1", "[::1]", "ho]st:1"]
)
def test_brackets_are_for_ipv6_alone(address: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        Address(address).check(Path("folder"))


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644])
def test_secrets_are_made_unreadable_for_others_and_refused_if_they_are_not(
    mode: int, mutual: Path, tokens: Path, tmp_path: Path
) -> None:
    for secret in [*mutual.rglob("key.pem"), *tokens.rglob("key.pem"), *tokens.rglob("token*")]:
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600, secret
    open_key = tmp_path / "key.pem"
    open_key.write_bytes(b"5EC2E7")
    open_key.chmod(mode)
    with pytest.raises(DataError, match="others on this machine may read it; run: chmod 600") as error:
        PartyFolder(tmp_path).server_credentials()
    assert "5EC2E7" not in str(error.value)


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"key\.pem cannot be read \(no such file"):
        PartyFolder(tmp_path).server_credentials()
    entries = [("a", "king", "0" * 64), (5, "client", "0" * 64), ("a", "client", 5), ("a", "client", "é")]
    odd = [json.dumps([{"name": name, "role": role, "sha256": hash}]) for name, role, hash in entries]
    for broken in ("{", "{}", '[{"name": 1}]', "[1]", "[" * 100_000, *odd):
        (tmp_path / "tokens.json").write_text(broken)
        with pytest.raises(DataError, match="is not a list of name, role and sha256"):
            Authenticator.of(tmp_path)


@pytest.mark.parametrize("uri", ["", "urn:crescendo:", "urn:crescendo:king:a", "spiffe://a/b", "urn:crescendo:client"])
def test_other_names_in_a_certificate_say_nothing(uri: str) -> None:
    assert Identity.of(uri) is None


# -- the command


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["certs", *map(str, arguments)])


def test_certs_adds_parties_to_what_is_there_and_keeps_the_rest(tmp_path: Path) -> None:
    first = run(tmp_path, "--client", "alice", "--json")
    facts = json.loads(first.stdout)
    assert facts["made"] == [str(tmp_path / "server"), str(tmp_path / "clients" / "alice")] and facts["kept"] == []
    before = (tmp_path / "clients" / "alice" / "cert.pem").read_bytes()
    second = run(tmp_path, "--client", "alice", "--client", "bob", "--aggregator", "edge")
    assert second.exit_code == 0 and f"kept {tmp_path / 'clients' / 'alice'}" in second.stdout
    assert (tmp_path / "clients" / "alice" / "cert.pem").read_bytes() == before
    bob = as_client(tmp_path / "clients" / "bob")[0]
    assert visit(tmp_path / "server", bob, "bob") == "in"


def test_certs_prints_no_secret(tmp_path: Path) -> None:
    said = run(tmp_path, "--tokens", "--client", "alice", "--aggregator", "edge").stdout
    for secret in [*tmp_path.rglob("key.pem"), *tmp_path.rglob("token")]:
        assert secret.read_text().strip() not in said


def test_an_aggregator_made_later_knows_the_tokens_and_so_do_those_before(tmp_path: Path) -> None:
    run(tmp_path, "--tokens", "--client", "alice", "--aggregator", "one")
    run(tmp_path, "--client", "bob", "--aggregator", "two")
    books = [TokenBook.read(place / "tokens.json") for place in (tmp_path / "aggregators").iterdir()]
    books.append(TokenBook.read(tmp_path / "server" / "tokens.json"))
    names = {
        Identity("client", "alice"),
        Identity("client", "bob"),
        Identity("aggregator", "one"),
        Identity("aggregator", "two"),
    }
    assert len(books) == 3 and all(set(book.owners.values()) == names for book in books)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--client", ""], "cannot be a name"),
        (["--client", "a\nb"], "cannot be a name"),
        (["--client", "x" * 200], "cannot be a name"),
        (["--days", "0"], "at least a day"),
        (["--host", "ü.example"], "is not a host's name or address"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = run(tmp_path / "new", *arguments)
    assert result.exit_code == 1 and says in result.stderr and result.stderr.count("\n") == 1


def test_a_folder_for_certificates_is_not_turned_into_one_for_tokens(tmp_path: Path) -> None:
    run(tmp_path, "--client", "alice")
    assert "use another folder" in run(tmp_path, "--tokens", "--client", "bob").stderr
    (tmp_path / "authority" / "ca.pem").write_text("damaged")
    assert "the authority" in run(tmp_path, "--client", "bob").stderr


def test_names_never_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    run(folder, "--client", "../../out", "--client", ".", "--client", "..", "--client", "a/b")
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert len(list((folder / "clients").iterdir())) == 4
