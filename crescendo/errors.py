"""Errors that Crescendo raises on purpose. A message states what happened, whose fault it is and what to do.

Errors that `crescendo_dp` raises too are defined there, so that one ``except`` catches both packages.
"""

from crescendo_dp.errors import ConfigError, CrescendoError, DataError, OwnCodeError, Refused, UsageError

__all__ = [
    "ConfigError",
    "CrescendoError",
    "DataError",
    "Diverged",
    "OwnCodeError",
    "PeerError",
    "Refused",
    "UsageError",
]


class PeerError(CrescendoError):
    """The other side broke the protocol. Drop its message and go on; the state is unchanged."""


class Diverged(UsageError):
    """A run's numbers exceeded the range of floats; a smaller step size often helps."""
