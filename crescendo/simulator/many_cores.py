"""Number of clients that compute at a time: one per core where that is faster, otherwise one."""

import multiprocessing

import numpy as np

from crescendo.core.machine import usable_cores
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective

_WORTH_A_THREAD = 500_000  # numbers processed in a client's round; below this the hand-over costs more than it saves


def clients_at_a_time(most: int | None, terms: Terms, objective: Objective, data: Records) -> int:
    """Return the number of clients to compute at a time: at most ``most``, and one if the objective forbids threads.

    If ``most`` is None, the length of the rounds decides; a child process gets one, since its parent uses the other
    cores. The results do not depend on the number.
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise UsageError(f"cores must be a whole number, 1 or more, got {most!r}")
    if not objective.traits.threads:
        return 1
    if most is None:
        slots = terms.before(terms.rounds) / (terms.rounds * terms.clients)
        pays = slots * _numbers(objective, data) >= _WORTH_A_THREAD and multiprocessing.parent_process() is None
        most = usable_cores() if pays else 1
    return min(most, terms.clients)


def _numbers(objective: Objective, data: Records) -> float:
    """Return the count of numbers that a slot processes: the model's, or those of a sparse record."""
    return objective.size if isinstance(data.x, np.ndarray) else data.x.nnz / max(1, len(data))
