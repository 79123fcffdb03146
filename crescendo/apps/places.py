"""From an address and a party's folder of certificates to where the network is reached, in the clear only on this machine."""

from __future__ import annotations

from pathlib import Path

from crescendo.apps.policy import Policy, check_certificate
from crescendo.apps.serve import Listening
from crescendo.errors import UsageError
from crescendo.runtimes.network.health import check_health
from crescendo.runtimes.network.link import Place
from crescendo.runtimes.network.server import everybody
from crescendo.runtimes.security import (
    Doorkeeper,
    check_address,
    check_folder,
    client_credentials,
    client_token,
    server_credentials,
    shown_certificate,
)


def listening(address: str, certs: Path | None, health: str | None = None) -> Listening:
    """Where to listen, and who is let in."""
    check_address(address, certs)
    if health is not None:
        check_health(health)
    if certs is None:
        return Listening(address, None, everybody, health)
    check_folder(certs, "serve")
    return Listening(address, server_credentials(certs), Doorkeeper.of(certs), health)


def place(address: str, certs: Path | None, policy: Policy | None = None) -> Place:
    """Where the server is. If the policy names its certificate, it is looked at first and no other will do."""
    check_address(address, certs)
    if certs is not None:
        check_folder(certs, "ask")
    pinned = None
    if policy is not None and policy.server is not None:
        if certs is None:
            raise UsageError("the policy names the server's certificate, so TLS is needed; give --certs")
        try:
            pinned = shown_certificate(address)
        except OSError as error:
            raise UsageError(f"the server at {address} shows no certificate ({error}); is it there?") from None
        check_certificate(policy, pinned)
    if certs is None:
        return Place(address)
    return Place(address, client_credentials(certs, pinned), client_token(certs))
