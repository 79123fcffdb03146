"""SCAFFOLD (Karimireddy et al., "Stochastic Controlled Averaging for Federated Learning", ICML 2020), option II.

The server has a model x and a control variate c, and each client i a control variate c_i; all start at 0. In a round
client i starts at y = x and takes local steps corrected towards the other clients::

    y <- y - eta (g_i(y) - c_i + c)

After K steps, c_i' = c_i - c + (x - y) / (K eta), and it sends D = x - y and c_i' - c_i. The server moves by::

    x <- x - rate  sum_{i in S} p_i D_i / sum_{i in S} p_i,        c <- c + sum_{i in S} p_i (c_i' - c_i)

S is the set of participants, as in FedAvg, and p_i = 1/n in the paper. If steps differ within a round, the sum of
their sizes replaces K eta. Two vectors travel each way, so a round has twice the bytes of FedAvg's. A client adopts
its new c_i once the server acknowledges it, so c stays the mean of the c_i even with late clients.
"""

from collections.abc import Mapping

import numpy as np

from crescendo.algorithms.fedavg import FedAvgClient, FedAvgOptions, FedAvgServer, weighted_mean
from crescendo.core.arrays import Floats, Vector
from crescendo.core.messages import Broadcast, Settled, Update
from crescendo.core.terms import Terms
from crescendo.core.vectors import rounded


class ScaffoldServer(FedAvgServer):
    """FedAvg's server with a control variate; an update has the displacements of model and control variate."""

    def __init__(self, terms: Terms, model: Vector, options: FedAvgOptions) -> None:
        super().__init__(terms, model, options)
        self._control = np.zeros_like(self.model)
        self._both = np.concatenate([self.model, self._control])  # one array, rounded once for all clients
        self._has: dict[int, int] = {}  # the last applied round of each client

    def broadcast(self, c: int) -> Broadcast:
        """Return model and control variate, with the client's last applied round as acknowledgement."""
        return Broadcast(self._both, self.k, Settled.of([self._has[c]] if c in self._has else []))

    def _move(self, arrived: Mapping[int, Vector]) -> None:
        size, weights = len(self.model), self._terms.weights
        moved = weighted_mean(arrived, weights)
        self.model = self.model - self._rate * moved[:size]
        self._control = self._control + sum(weights[c] for c in arrived) * moved[size:]
        self._both = np.concatenate([self.model, self._control])
        self._has.update(dict.fromkeys(arrived, self.k))


class ScaffoldClient(FedAvgClient):
    """A FedAvg client with its own control variate."""

    def __init__(self, terms: Terms, me: int, model: Vector, wire: str = "float64") -> None:
        super().__init__(terms, me, model)
        self._wire, self._path = wire, 0.0
        self._own = np.zeros_like(self.frame)
        self._global = np.zeros_like(self.frame)
        self._change = np.zeros_like(self.frame)  # change of its control variate, sent but not yet acknowledged

    def start(self) -> Floats:
        self._path = 0.0
        return super().start()

    def correction(self, w: Floats, eta: float) -> Floats:
        self._path += eta
        return self._global - self._own

    def finish(self, delta: Vector) -> Update:
        """Return both displacements, as the server decodes them: c_i' - c_i = D / (K eta) - c."""
        change = np.asarray(delta, dtype=np.float64) / self._path - self._global
        self._change = np.asarray(rounded(change, self._wire), dtype=np.float64)
        return super().finish(np.concatenate([delta, self._change]))

    def receive(self, broadcast: Broadcast) -> None:
        if not self.is_news(broadcast):
            return
        if self._sent is not None and self._sent.round in broadcast.yours:
            self._own = self._own + self._change
        self._sent = None
        size = len(self.frame)
        self._global = np.array(broadcast.model[size:], dtype=np.float64)
        super().receive(Broadcast(broadcast.model[:size], broadcast.k, broadcast.yours))
