"""Tokens: the owner of each token, found by the token's hash."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_args

from crescendo.errors import DataError
from crescendo.network.transport.security.identity import Identity, Role
from crescendo.network.transport.security.party_files import read

_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class TokenBook:
    """The owner of each token, by the token's SHA-256."""

    owners: Mapping[str, Identity]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read tokens.json, a list of ``{"name": .., "role": .., "sha256": ..}``."""
        try:
            entries: list[dict[str, str]] = json.loads(read(path))
            owners = {entry["sha256"]: Identity(entry["role"], entry["name"]) for entry in entries}  # type: ignore[arg-type]
            if not isinstance(entries, list) or any(known.role not in get_args(Role) for known in owners.values()):
                raise ValueError
            if not all(_HASH.fullmatch(known) and isinstance(owner.name, str) for known, owner in owners.items()):
                raise ValueError
            return cls(owners)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path} is not a list of name, role and sha256; make it with `crescendo certs`") from None

    @staticmethod
    def hash(token: str) -> str:
        """Return the SHA-256 of a token, the form in which it is stored."""
        return hashlib.sha256(token.encode()).hexdigest()

    def owner(self, token: str) -> Identity | None:
        """Return the owner of a token. This compares all hashes, each in constant time, even after a match."""
        shown, found = self.hash(token), None
        for stored, identity in self.owners.items():
            if hmac.compare_digest(shown, stored):
                found = identity
        return found
