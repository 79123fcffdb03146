"""How many clients of a run compute at a time: as many as there are cores where that is quicker, else one."""

import multiprocessing

import numpy as np

from crescendo.core.machine import usable_cores
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective

_WORTH_A_THREAD = 500_000  # numbers that a client's round goes over; handing over a round of fewer takes longer


def clients_at_a_time(most: int | None, terms: Terms, objective: Objective, data: Records) -> int:
    """At most ``most``, and one if the objective's clients cannot compute at the same time.

    Left out, it is decided by how long rounds are; and in a process that another one started, which has its own use for the other
    cores, it is one. What is computed does not depend on it.
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
    """That a slot goes over: those of the model, or of a sparse record."""
    return objective.size if isinstance(data.x, np.ndarray) else data.x.nnz / max(1, len(data))
