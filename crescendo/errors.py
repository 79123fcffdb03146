"""Everything Crescendo raises on purpose. A message says what happened, whose fault it is and what to do.

The errors that `crescendo_dp` raises as well are its own, so that one ``except`` catches both packages.
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
    """The other side broke the protocol. Drop its message and go on; nothing was changed."""


class Diverged(UsageError):
    """A run's numbers grew beyond what floats hold; a smaller step size often helps."""
