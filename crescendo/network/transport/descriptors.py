"""File descriptors: raises the limit at start, and says what it leaves for connections.

Every connection is a descriptor, and so are the journal's next segment, a snapshot and a look at the tokens. Connections get
what is left after a reserve, so that however many peers come, none of those fails.
"""

import resource
from contextlib import suppress
from pathlib import Path

from crescendo.errors import UsageError

RESERVE = 64  # beside what is open at the start: the journal, snapshots, the log, tokens, /healthz
SPARE = 256  # connections beyond two of each name: those that have not said who they are
ENOUGH = 8192  # descriptors asked for at least; each connection that says nothing costs 36 kB, so not all one can get
FEWEST = 16  # connections with which a server can be of use

OPEN = Path("/dev/fd")  # what is open; on Linux a link to /proc/self/fd


def needed(names: int) -> int:
    """How many descriptors so many clients need: each has a connection, and a new one before the old one is given up.

    >>> needed(5), needed(1100)
    (394, 2584)
    """
    return 2 * names + SPARE + 2 * RESERVE


def raise_limit(names: int = 0) -> str | None:
    """Raise this process's limit to what is enough, as far as it may; what is wrong if that is too little for all names.

    Clients may come by way of aggregators and need no connection here, so too little for all is no reason not to start.
    """
    soft, hard = (_number(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = min(max(ENOUGH, needed(names)), hard)
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return shortage(names)


def shortage(names: int) -> str | None:
    """What is wrong if the limit is too little for all names; UsageError if it is too little for anything."""
    limit, enough, left = _limit(), needed(names), connections(names)
    how = f"raise it to {enough}, with ulimit -n {enough} or LimitNOFILE={enough} in a systemd unit"
    if left < FEWEST:
        raise UsageError(f"this process may have {limit} open files, which leaves too few for connections; {how}")
    if limit >= enough:
        return None
    return (
        f"{names} clients may need {enough} open files and this process may have {limit}, so that about {left} can be "
        f"connected at once and others are told to come back; {how}, or let clients join by way of aggregators"
    )


def connections(names: int = 0) -> int:
    """How many connections may be open at once, beside what is open now and the reserve."""
    return max(min(_limit(), max(ENOUGH, needed(names))) - len(open_now()) - RESERVE, 0)


def open_now() -> list[int]:
    """The descriptors that this process has open, and the one of the look itself."""
    return [int(path.name) for path in OPEN.iterdir()]


def _limit() -> int:
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
