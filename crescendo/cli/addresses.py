"""Network endpoints made from an address and a party's folder of certificates; without TLS only on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crescendo.errors import UsageError
from crescendo.federation.policy import Policy
from crescendo.network.server.health import HealthPage
from crescendo.network.server.serve import Listening
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.security.address import Address
from crescendo.network.transport.security.authenticator import Authenticator, everybody
from crescendo.network.transport.security.certificate_file import shown_certificate
from crescendo.network.transport.security.party_folder import PartyFolder


def listening(address: str, certs: Path | None, health: str | None = None) -> Listening:
    """Return the address to listen on, its credentials and its authenticator."""
    Address(address).check(certs)
    page = HealthPage(health) if health is not None else None
    if certs is None:
        return Listening(address, None, everybody, page)
    own = PartyFolder(certs)
    own.check("serve")
    return Listening(address, own.server_credentials(), Authenticator.of(certs), page)


def place(address: str, certs: Path | None, policy: Policy | None = None, name: str | None = None) -> Endpoint:
    """Return the server's endpoint for the party ``name``.

    If the policy names the server's certificate, the endpoint checks it when the server answers and accepts no other.
    """
    Address(address).check(certs)
    if certs is not None:
        own = PartyFolder(certs)
        own.check("ask")
        if name is not None:
            own.check_name(name)
    pins = policy is not None and policy.server is not None
    if certs is None:
        if pins:
            raise UsageError("the policy names the server's certificate, so TLS is needed; give --certs")
        return Endpoint(address)
    credentials, token = PartyFolder(certs).client_credentials(), PartyFolder(certs).token()
    if policy is None or not pins:
        return Endpoint(address, credentials, token)
    return Endpoint(address, _pinning(address, certs, policy), token)


def _pinning(address: str, certs: Path, policy: Policy) -> Callable[[], Any]:
    """Return a function that checks the server's certificate against the policy once and returns credentials pinned to it."""
    made: list[Callable[[], Any]] = []

    def look() -> Any:
        if not made:
            shown = shown_certificate(address)
            policy.check_server(shown)
            made.append(PartyFolder(certs).client_credentials(shown))
        return made[0]()

    return look
