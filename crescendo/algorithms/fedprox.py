"""FedProx (Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020).

FedAvg with clients kept near their start model: client c takes its local steps on

    F_c(w) + mu/2 |w - w_k|^2,    so that a step is    w <- w - eta (g(w) + mu (w - w_k))

with the round's start model w_k. mu = 0 is FedAvg. In the paper, stragglers send partial work at a deadline; here a
deadline leaves them out, as in FedAvg.
"""

from dataclasses import dataclass
from typing import Annotated

from crescendo.algorithms.fedavg import FedAvgClient, FedAvgOptions
from crescendo.algorithms.rival_options import Search
from crescendo.core.arrays import Floats, Vector
from crescendo.core.terms import Terms
from crescendo.schedules.parameters import NOT_NEGATIVE


@dataclass(frozen=True)
class FedProxOptions(FedAvgOptions):
    mu: Annotated[float, NOT_NEGATIVE, Search(1e-3, 1.0), "strength of the pull towards the start model"] = 0.1


class FedProxClient(FedAvgClient):
    """A FedAvg client that adds mu (w - w_k) to its gradients.

    >>> import numpy as np
    >>> from crescendo.schedules import ConstantSizes, ConstantSteps
    >>> terms = Terms(ConstantSizes(4), ConstantSteps(0.1), weights=(0.5, 0.5), rounds=3, ahead=0)
    >>> FedProxClient(terms, 0, np.ones(2), mu=0.5).correction(np.array([3.0, 1.0]), 0.1)
    array([1., 0.])
    """

    def __init__(self, terms: Terms, me: int, model: Vector, mu: float) -> None:
        super().__init__(terms, me, model)
        self._mu = mu

    def correction(self, w: Floats, eta: float) -> Floats:
        return self._mu * (w - self.frame)
