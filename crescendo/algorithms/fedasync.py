"""FedAsync (Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", 2019), with polynomial staleness.

A client downloads the server's model x_tau and its number tau, takes its local steps on F_c(x) + mu/2 |x - x_tau|^2
and sends the resulting model x_new. The server mixes it in at once, as its t-th model::

    x_t = (1 - alpha_t) x_{t-1} + alpha_t x_new,     alpha_t = alpha s(t - 1 - tau),     s(u) = (1 + u)^-a

where t - 1 - tau counts the server's models between the download and the arrival: a client that missed none has the
full weight alpha. With unequal weights p_c, x_new is x_tau plus n p_c times the client's move. Weighting alpha itself
would not converge to the minimum of sum p_c F_c, since mixing also removes the others' progress since.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from crescendo.algorithms.rival_options import RivalOptions, Search
from crescendo.algorithms.task_sides import StampedUpdate, TaskClient, TaskServer
from crescendo.core.arrays import Floats, Vector
from crescendo.core.terms import Terms
from crescendo.schedules.parameters import NOT_NEGATIVE, Range


@dataclass(frozen=True)
class FedAsyncOptions(RivalOptions):
    alpha: Annotated[
        float,
        Range(above=0, most=1, words="a number above 0, 1 at most"),
        Search(0.2, 1.0),
        "the weight of a fresh model",
    ] = 0.6
    a: Annotated[
        float,
        NOT_NEGATIVE,
        "decay of the weight with staleness; 0: none",
    ] = 0.5
    mu: Annotated[float, NOT_NEGATIVE, "strength of the pull towards the start model"] = 0.0


class FedAsyncServer(TaskServer):
    """Mixes every model in on arrival.

    >>> from crescendo.schedules import ConstantSizes, ConstantSteps
    >>> from crescendo.algorithms.rival_terms import TaskTerms
    >>> terms = TaskTerms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=4, ahead=0)
    >>> server = FedAsyncServer(terms, np.ones(1), FedAsyncOptions(alpha=0.5, a=1.0))
    >>> server.receive(StampedUpdate(0, 0, np.array([2.0]))), server.model     # half of 1 and half of 1 - 2
    (True, array([0.]))
    >>> server.receive(StampedUpdate(1, 1, np.array([-7.0]))), server.model    # it missed a model, so a quarter of 1 + 7
    (True, array([2.]))
    """

    def __init__(self, terms: Terms, model: Vector, options: FedAsyncOptions, wire: str = "float64") -> None:
        super().__init__(terms, model, wire)
        self._alpha, self._a = options.alpha, options.a

    def _take(self, update: StampedUpdate, staleness: int, start: Vector) -> None:
        weight, mixed = (
            self._terms.clients * self._terms.weights[update.client],
            self._alpha * (1 + staleness) ** -self._a,
        )
        moved = weight * np.asarray(update.delta, dtype=np.float64)
        reached = np.asarray(start, dtype=np.float64) - moved  # in float64: both came in the wire's floats
        self.model = (1 - mixed) * self.model + mixed * reached
        self.k += 1


class FedAsyncClient(TaskClient):
    """Adds mu (x - x_tau) to its gradients."""

    def __init__(self, terms: Terms, me: int, model: Vector, mu: float) -> None:
        super().__init__(terms, me, model)
        self._mu = mu

    def correction(self, w: Floats, eta: float) -> Floats:
        return self._mu * (w - self.frame)
