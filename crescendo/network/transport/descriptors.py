"""File descriptors: raises the limit at the start, and computes how many connections it allows.

Every connection needs a descriptor, and so do the journal's next segment, a snapshot and the file of tokens. A reserve is kept
for these files, so that they can be opened however many peers connect.
"""

import resource
from contextlib import suppress
from pathlib import Path

from crescendo.errors import UsageError

RESERVE = 64  # in addition to those open at the start: the journal, snapshots, the log, tokens, /healthz
SPARE = 256  # connections beyond two per name, for peers that are not yet authenticated
ENOUGH = 8192  # descriptors to ask for at least; not more, because each silent connection takes 36 kB of memory
FEWEST = 16  # connections that a useful server needs

OPEN = Path("/dev/fd")  # the open descriptors; on Linux a link to /proc/self/fd


def needed(names: int) -> int:
    """Return how many descriptors this many clients need. Each has a connection, and may open a new one before the old one ends.

    >>> needed(5), needed(1100)
    (394, 2584)
    """
    return 2 * names + SPARE + 2 * RESERVE


def raise_limit(names: int = 0) -> str | None:
    """Raise this process's limit as far as needed and allowed; return a warning if it is too low for all names.

    The server starts with such a limit, because clients that connect to an aggregator need no connection here.
    """
    soft, hard = (_number(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = min(max(ENOUGH, needed(names)), hard)
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return shortage(names)


def shortage(names: int) -> str | None:
    """Return a warning if the limit is too low for all names, or None; UsageError if it is too low for any use."""
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
    """Return how many connections fit into the limit, after the open descriptors and the reserve."""
    return max(min(_limit(), max(ENOUGH, needed(names))) - len(open_now()) - RESERVE, 0)


def open_now() -> list[int]:
    """Return the open descriptors of this process, including the one that lists them."""
    return [int(path.name) for path in OPEN.iterdir()]


def _limit() -> int:
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
