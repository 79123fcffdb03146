"""Errors that this package raises on purpose. A message names the mistake and the remedy.

The federated learning package, `crescendo`, raises these too and derives its own from them, so that catching `CrescendoError`
catches every error of both.
"""


class CrescendoError(Exception):
    """Base class: catch this to catch everything raised on purpose.

    ``public`` is the text that another party may read; None for nothing. Set it only where the error rests on facts that the
    other party has anyway: the message itself may hold paths, budgets or the terms of others.
    """

    public: str | None = None


class UsageError(CrescendoError):
    """The caller asked for the impossible or broke the protocol."""


class ConfigError(UsageError):
    """A setting is wrong. One sentence names it and lists the right values."""


class OwnCodeError(ConfigError):
    """A user's own code raised. The message names the line of the user's file; ``__cause__`` holds the traceback."""


class DataError(UsageError):
    """A data file is missing, altered or malformed."""


class Refused(UsageError):
    """A guarantee would not hold. The message gives both sides and the nearest value that passes."""
