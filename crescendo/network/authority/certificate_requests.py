"""Certificate requests: a party makes its own key, which never leaves its machine, and the authority signs the public half.

`request_certificate` runs at the party and `sign_request` at the authority. From a request the authority takes only the name and
the public key; the authority itself decides the uses, the lifetime and the hosts of the certificate.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from crescendo.errors import DataError, UsageError
from crescendo.network.authority.certificate_checks import (
    THIS_MACHINE,
    CertificateRequest,
    check_party_name,
    serial_and_owner,
)
from crescendo.network.authority.certificates import (
    Authority,
    alone_in,
    common_name,
    lifetime,
    new_key,
    pem_of,
    write_secret,
)
from crescendo.network.transport.security.certificate_file import belongs
from crescendo.network.transport.security.identity import Identity, Role
from crescendo.network.transport.security.party_files import CA, CERTIFICATE, KEY, NEXT_KEY, TOKEN, TOKENS

REQUEST = "request.pem"
LARGEST_REQUEST = 64 << 10  # bytes
CURVES = (ec.SECP256R1, ec.SECP384R1)
RSA_BITS = range(2048, 8193)
FOLDERS: dict[Role, str] = {"client": "clients", "aggregator": "aggregators"}


@dataclass(frozen=True)
class Requested:
    """A new request: its file, and the fingerprint of its key for both sides to compare."""

    path: Path
    fingerprint: str


@dataclass(frozen=True)
class Signed:
    """A new certificate in ``folder``; ``before`` is the serial number of the one that it replaces, if any."""

    folder: Path
    identity: Identity
    certificate: x509.Certificate
    before: int | None

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.certificate.public_key())


# -- at the party ------------------------------------------------------------------------------------------------------


def request_certificate(folder: Path, identity: Identity) -> Requested:
    """Make a key in ``folder``, unless one already waits for its certificate, and a request for its certificate.

    An existing certificate and its key stay in use until the new certificate is copied into the folder.
    """
    check_party_name(identity.name)
    if (folder / TOKEN).exists():
        raise UsageError(f"{folder} has a token, because its federation uses tokens for clients; ask for a new token")
    _check_own(folder, identity)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _waiting_key(folder)
    builder = x509.CertificateSigningRequestBuilder().subject_name(common_name(identity.name))
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.uri)])
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    (folder / REQUEST).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Requested(folder / REQUEST, _fingerprint(key.public_key()))


def _check_own(folder: Path, identity: Identity) -> None:
    if not (folder / CERTIFICATE).exists():
        return
    _, owner = serial_and_owner(folder)
    if owner != identity:
        raise UsageError(
            f"{folder} has the certificate of {_called(owner)} and not of {_called(identity)}; name another folder with --keys"
        )


def _waiting_key(folder: Path) -> Any:
    """Return the key that has no certificate yet, the same one for every request until its certificate is there."""
    certificate = (folder / CERTIFICATE).read_bytes() if (folder / CERTIFICATE).exists() else b""
    first, following = folder / KEY, folder / NEXT_KEY
    if following.exists() and certificate and belongs(following.read_bytes(), certificate):
        following.replace(first)  # it has its certificate now
    waiting = following if first.exists() and belongs(first.read_bytes(), certificate) else first
    if not waiting.exists():
        write_secret(waiting, pem_of(new_key()))
    try:
        return serialization.load_pem_private_key(waiting.read_bytes(), None)
    except (ValueError, TypeError):
        raise DataError(f"{waiting} is not a private key; move it away and ask again") from None


# -- at the authority --------------------------------------------------------------------------------------------------


def sign_request(
    keys: Path,
    file: Path,
    *,
    role: Role = "client",
    hosts: Sequence[str] = (),
    names: Collection[str] | None = None,
    days: int = 90,
    renew: bool = False,
) -> Signed:
    """Sign a request with the authority in ``keys``, and put the certificate into the party's folder there, to be sent back.

    ``names`` are the clients of the federation, if they are known. A party that has a certificate gets another only with
    ``renew``, because the request may come from another party.
    """
    identity, key = read_request(file)
    place = _place(keys, identity, role, hosts, days)
    if identity.role != role:
        raise UsageError(f"{file} is a request of {_called(identity)}; if that is meant, add --role {identity.role}")
    if names is not None and role == "client" and identity.name not in names:
        raise UsageError(
            f'{file} is a request of client "{identity.name}", which the federation does not name; not signed'
        )
    with alone_in(keys):
        before = serial_and_owner(place)[0] if (place / CERTIFICATE).exists() else None
        if before is not None and not renew:
            raise UsageError(
                f"{_called(identity)} has a certificate in {place}; make sure that {identity.name} itself asks for another, "
                f"and add --renew"
            )
        authority = Authority(keys / "authority", lifetime(days))
        made = authority.certificate(identity, key, [] if role == "client" else [*THIS_MACHINE, *hosts])
        place.mkdir(parents=True, exist_ok=True)
        (place / CERTIFICATE).write_bytes(made.public_bytes(serialization.Encoding.PEM))
        authority.introduce(place)
        return Signed(place, identity, made, before)


def _place(keys: Path, identity: Identity, role: Role, hosts: Sequence[str], days: int) -> Path:
    request = CertificateRequest(keys, hosts, (), (), False, days)
    if not (keys / "authority" / CA).exists():
        raise DataError(f"there is no authority in {keys}; name the folder that `crescendo certs` made with --keys")
    request.check_numbers()
    if role == "client" and hosts:
        raise UsageError("a client is not reached under any host; leave --host out")
    if role == "client" and (request.server / TOKENS).exists():
        raise UsageError(f"the clients of {keys} show tokens; make one with `crescendo certs {keys} --client NAME`")
    return request.server if role == "server" else request.place(FOLDERS[role], identity.name)


def read_request(file: Path) -> tuple[Identity, Any]:
    """Return the identity and the public key in a request; DataError for a request that a sound party would not send."""
    try:
        with file.open("rb") as source:
            raw = source.read(LARGEST_REQUEST + 1)
        found = x509.load_pem_x509_csr(raw)
        sound = len(raw) <= LARGEST_REQUEST and found.is_signature_valid
        extensions, key = list(found.extensions), found.public_key()
        attributes = [one.oid for one in found.attributes]
        subject = [(part.oid, str(part.value)) for part in found.subject]
    except OSError as error:
        raise DataError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}; check the path") from None
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise DataError(f"{file} is not a certificate request; make one with `crescendo certs request NAME`") from None
    if not sound:
        raise DataError(f"{file} is not signed with the key that it is about; its sender may not have that key")
    _check_key(file, key)
    odd = [one.oid for one in extensions if not isinstance(one.value, x509.SubjectAlternativeName)]
    odd += [oid for oid in attributes if oid != _EXTENSIONS]
    if odd:
        raise DataError(f"{file} asks for more than a name and a key ({odd[0].dotted_string}); not signed")
    return _identity(file, [name for one in extensions for name in one.value], subject), key


_EXTENSIONS = x509.ObjectIdentifier("1.2.840.113549.1.9.14")  # the attribute of a request that holds its extensions


def _check_key(file: Path, key: Any) -> None:
    fine = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, CURVES)
    fine = fine or (isinstance(key, rsa.RSAPublicKey) and key.key_size in RSA_BITS)
    if not fine:
        raise DataError(
            f"{file} has a key of a kind that is not accepted; use P-256, P-384, or RSA with 2048 bits or more"
        )


def _identity(file: Path, names: list[Any], subject: list[tuple[Any, str]]) -> Identity:
    """Return the identity from the URI, as in a certificate; from the common name if another tool made the request."""
    common = [value for oid, value in subject if oid == NameOID.COMMON_NAME]
    if len(subject) > 1 or len(common) != len(subject):
        raise DataError(f"{file} has more of a subject than one common name; not signed")
    if not names and common:
        identity = Identity("client", common[0])
    elif len(names) == 1 and isinstance(names[0], x509.UniformResourceIdentifier):
        found = Identity.of(names[0].value)
        if found is None or found.uri != names[0].value or (common and common[0] != found.name[:64]):
            raise DataError(f"{file} has invalid names, or names that contradict each other; not signed")
        identity = found
    else:
        raise DataError(f"{file} does not have one name; not signed")
    check_party_name(identity.name)
    return identity


def _called(identity: Identity) -> str:
    return "the server" if identity.role == "server" else f'{identity.role} "{identity.name}"'


def _fingerprint(key: Any) -> str:
    """Return the SHA-256 of a public key, which the two sides compare, for example by telephone."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(*form)).hexdigest()
