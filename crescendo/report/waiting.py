"""Causes of waiting: the setting that made clients wait for a noticeable share of their time, and the change that ends it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.report.numbers import share

NOTICEABLE = 0.05  # of the clients' time
_MOST_LISTED = 12  # clients whose weights fit in a line


def why_waiting(result: Any, waiting: float) -> str | None:
    """Return the cause and the remedy in a sentence or two; None if clients hardly waited."""
    terms = result.prepared.terms
    if waiting < NOTICEABLE or terms.clients < 2:
        return None
    work = _work(result.trace.tables["segments"], terms.clients)
    if uneven(work) >= waiting / 2:
        return _by_speed(result.prepared, work)
    wait = result.prepared.config.schedule.wait
    if wait.rounds is None:
        return "Clients waited because the delay bound schedule.wait.tau stopped them; a larger bound ends it."
    if wait.rounds == 0:
        return (
            "Clients waited because schedule.wait.rounds = 0 makes every round wait for all clients; "
            "1 or more lets them go on working."
        )
    return (
        f"Clients waited for messages: a global model took longer to arrive than {_rounds(wait.rounds)} of work. "
        f"schedule.wait.rounds = {_more(wait.rounds, waiting)}, or larger first rounds, would shorten it."
    )


def uneven(work: Floats) -> float:
    """Return the share of time that clients wait only because of the slowest, if every round has them all.

    >>> uneven(np.array([1.0, 1.0])), uneven(np.array([4.0, 1.0, 1.0]))
    (0.0, 0.5)
    """
    return 1.0 - float(work.mean() / work.max()) if work.max() > 0 else 0.0


def _work(segments: dict[str, Any], clients: int) -> Floats:
    spent = segments["ended_at"] - segments["began_at"]
    return np.bincount(segments["client"], spent, minlength=clients).astype(np.float64)


def _by_speed(prepared: Any, work: Floats) -> str:
    slowest, fastest = int(work.argmax()), int(np.where(work > 0, work, np.inf).argmin())
    names = prepared.names
    cause = (
        f"Clients waited because shares do not follow speeds: {names[slowest]} needed {work[slowest] / work[fastest]:.2g} "
        f"times as long for its part of a round as {names[fastest]}, and every round needs both."
    )
    weights = np.asarray(prepared.terms.weights, dtype=np.float64) / np.where(work > 0, work, work.max())
    listed = ", ".join(f"{weight:.2g}" for weight in weights / weights.min())
    change = (
        f"clients.weights = [{listed}]"
        if len(weights) <= _MOST_LISTED
        else "clients.weights in proportion to the speeds"
    )
    return f"{cause} Shares by speed end it: {change}. A client's weight in the model follows its share."


def _rounds(many: int) -> str:
    return "a round" if many == 1 else f"{many} rounds"


def _more(ahead: int, waiting: float) -> int:
    """Return the rounds ahead that would have kept clients at work until the model arrived, at the pace of this run.

    >>> _more(1, 0.3), _more(2, 0.5), _more(1, 0.999999)
    (2, 4, 10)
    """
    return min(10 * ahead, math.ceil(ahead / max(1e-9, 1.0 - waiting)))


def headline(waiting: float, away: float) -> str:
    """Return the text under the share on its card.

    >>> headline(0.4, 0.0), headline(0.0, 0.1)
    ("of the clients' time; why: see the timeline", "of the clients' time; away 10%")
    """
    why = "; why: see the timeline" if waiting >= NOTICEABLE else ""
    return f"of the clients' time{f'; away {share(away)}' if away else ''}{why}"
