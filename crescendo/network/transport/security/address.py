"""Addresses: HOST:PORT or a socket's path; without TLS only addresses of this machine are allowed."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from crescendo.errors import UsageError


@dataclass(frozen=True)
class Address:
    """``HOST:PORT``, or the path of a socket: ``unix:PATH``."""

    text: str

    def host_and_port(self) -> tuple[str, int]:
        """The two parts of ``HOST:PORT``.

        >>> Address("[::1]:7077").host_and_port(), Address("example.org:0").host_and_port()
        (('::1', 7077), ('example.org', 0))
        """
        host, _, port = self.text.rpartition(":")
        inside = host.removeprefix("[").removesuffix("]")
        if ":" in inside and host != f"[{inside}]":  # it may as well be an address without a port
            raise UsageError(
                f"{self.text} is not HOST:PORT; an IPv6 address stands in brackets, for example [::1]:7077"
            )
        if not _is_host(inside, bracketed=host != inside) or not (port.isascii() and port.isdecimal()):
            raise UsageError(f"{self.text} is not HOST:PORT; write for example 127.0.0.1:7077")
        if len(port) > 5 or int(port) > 65535:
            raise UsageError(f"{self.text} is not HOST:PORT: a port is at most 65535; write for example 127.0.0.1:7077")
        return inside, int(port)

    @property
    def is_loopback(self) -> bool:
        """True if the address is on this machine. Names other than localhost are not looked up: an answer can be forged.

        >>> texts = ("127.0.0.1:7077", "[::1]:7077", "localhost:7077", "0.0.0.0:7077", "example.org:7077")
        >>> [Address(text).is_loopback for text in texts]
        [True, True, True, False, False]
        """
        host = self.text.rpartition(":")[0].strip("[]").partition("%")[0]
        if self.text.startswith("unix:") or host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def check(self, folder: Path | None) -> None:
        """Refuse an invalid address, and any address outside this machine if there is no ``folder`` for TLS."""
        if not self.text.startswith("unix:"):
            self.host_and_port()
        if folder is None and not self.is_loopback:
            raise UsageError(
                f"{self.text} is not a loopback address, such as 127.0.0.1, so TLS is needed; make certificates with "
                f"`crescendo certs` and name the folder of this party with --certs"
            )


def _is_host(text: str, bracketed: bool) -> bool:
    """True if the text may be a host's name or address. Only IPv6 addresses may have brackets."""
    if not bracketed:
        return bool(text) and not any(letter.isspace() or letter in "[]" for letter in text)
    try:
        return bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False
