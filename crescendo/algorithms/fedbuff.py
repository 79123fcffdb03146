"""FedBuff (Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022).

A client downloads the newest model w^t, takes its local steps, sends the displacement D = w^t - y and downloads
again. The server collects K displacements in a buffer, and moves::

    w^{t+1} = w^t - rate / K  sum_i s(tau_i) n p_i D_i,     s(tau) = 1 / sqrt(1 + tau)

Here tau_i is the number of server moves between the download and the arrival, and t is a broadcast's ``k``. The
factor n p_i, 1 for the paper's equal weights, keeps the objective sum p_c F_c. After the last update, the rest of the
buffer is applied in the same way, so that no gradient is wasted.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from crescendo.algorithms.rival_options import RivalOptions
from crescendo.algorithms.task_sides import StampedUpdate, TaskServer
from crescendo.core.arrays import Vector
from crescendo.core.terms import Terms
from crescendo.schedules.parameters import POSITIVE, WHOLE

USUAL_BUFFER = 10  # the paper's good value, for many more clients


@dataclass(frozen=True)
class FedBuffOptions(RivalOptions):
    buffer: Annotated[int, WHOLE, "updates per move of the model; 0: the number of clients, at most 10"] = 0
    rate: Annotated[float, POSITIVE, "the server's step size: 1 moves by the mean of the buffer"] = 1.0


def staleness_weight(tau: int) -> float:
    """Return s(tau) = 1 / sqrt(1 + tau): an update based on an old model counts less.

    >>> staleness_weight(0), staleness_weight(3)
    (1.0, 0.5)
    """
    return 1 / math.sqrt(1 + tau)


class FedBuffServer(TaskServer):
    """Moves the model by the weighted mean of every ``buffer`` updates, times ``rate``.

    >>> from crescendo.schedules import ConstantSizes, ConstantSteps
    >>> from crescendo.algorithms.rival_terms import TaskTerms
    >>> terms = TaskTerms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=0)
    >>> server = FedBuffServer(terms, np.zeros(1), FedBuffOptions(buffer=2, rate=0.5))
    >>> server.receive(StampedUpdate(0, 0, np.array([4.0]))), server.receive(StampedUpdate(1, 1, np.array([8.0])))
    (False, True)
    >>> server.model, server.k, server.called()
    (array([-3.]), 1, [0])
    """

    def __init__(self, terms: Terms, model: Vector, options: FedBuffOptions, wire: str = "float64") -> None:
        super().__init__(terms, model, wire)
        self._buffer, self._rate = options.buffer or min(terms.clients, USUAL_BUFFER), options.rate
        self._sum, self._held = np.zeros_like(self.model), 0

    @staticmethod
    def moves(terms: Terms, options: FedBuffOptions) -> int:
        """Return the number of model moves in a run."""
        return -(-terms.rounds // (options.buffer or min(terms.clients, USUAL_BUFFER)))

    def _take(self, update: StampedUpdate, staleness: int, start: Vector) -> None:
        weight = staleness_weight(staleness) * self._terms.clients * self._terms.weights[update.client]
        self._sum = self._sum + weight * np.asarray(update.delta, dtype=np.float64)
        self._held += 1
        if self._held == self._buffer or self.finished:
            self.model = self.model - self._rate * (self._sum / self._buffer)
            self._sum, self._held, self.k = np.zeros_like(self.model), 0, self.k + 1
