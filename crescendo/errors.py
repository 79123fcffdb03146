"""Everything Crescendo raises on purpose. A message says what happened, whose fault it is and what to do."""


class CrescendoError(Exception):
    """Base class: catch this to catch everything raised on purpose.

    ``public`` is what of it a peer may be told; None for nothing. It is set where an error is known to rest on what the peer
    knows anyway, and never taken from the message of just any error, which may hold paths, budgets or what others agreed on.
    """

    public: str | None = None


class PeerError(CrescendoError):
    """The other side broke the protocol. Drop its message and go on; nothing was changed."""


class UsageError(CrescendoError):
    """Our own side asked for the impossible, or broke the protocol. The caller should see it."""


class ConfigError(UsageError):
    """A run file or an option is wrong: one sentence that names the key and what would be right."""


class OwnCodeError(ConfigError):
    """A user's own model or mechanism raised; the message has the line of its file, and ``__cause__`` the whole traceback."""


class DataError(UsageError):
    """A data file is missing, altered or malformed."""


class Diverged(UsageError):
    """A run's numbers grew beyond what floats hold; a smaller step size often helps."""


class Refused(UsageError):
    """A schedule or mechanism whose certificate does not hold; the message has both sides and the nearest value that passes."""
