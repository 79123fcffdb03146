"""Registry of algorithms by name: our own, and its rivals.

>>> ALGORITHMS["fedbuff"].about
'buffered and asynchronous: the model moves by the mean of every few updates, stale ones less'
>>> ALGORITHMS["fedavg"].made({"rate": 0.5})
FedAvgOptions(step_scale=1.0, local_steps=0, rate=0.5, deadline=0.0)
"""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from crescendo.algorithms.corrected_steps import check_correctable
from crescendo.algorithms.fedasync import FedAsyncClient, FedAsyncOptions, FedAsyncServer
from crescendo.algorithms.fedavg import FedAvgClient, FedAvgOptions, FedAvgServer
from crescendo.algorithms.fedbuff import FedBuffOptions, FedBuffServer
from crescendo.algorithms.fedprox import FedProxClient, FedProxOptions
from crescendo.algorithms.pooled import pooled_terms
from crescendo.algorithms.rival_options import AlgorithmOptions, RivalOptions, Search, searched
from crescendo.algorithms.rival_terms import equal_rounds, local_steps, scaled, tasks
from crescendo.algorithms.scaffold import ScaffoldClient, ScaffoldServer
from crescendo.algorithms.task_sides import TaskClient
from crescendo.core.arrays import Floats
from crescendo.core.client import Client
from crescendo.core.server import Server
from crescendo.core.sides import ClientSide, ServerSide
from crescendo.core.terms import Terms
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives.base import Traits
from crescendo.schedules.parameters import Parameter, parameters

OURS = "crescendo"


@dataclass(frozen=True)
class AlgorithmSides:
    """The sides that a simulation drives: a server, one client per worker, and the number of model moves."""

    server: ServerSide
    clients: Sequence[ClientSide]
    moves: int


@dataclass(frozen=True)
class Algorithm:
    """An algorithm on the simulator.

    ``terms`` makes its terms from those of the run file and its options. ``sides`` makes a server and clients from
    its terms, the first model, its options and the wire. ``private``: its clients' releases are covered by
    certificates, in rounds fixed by its terms. ``masks``: a round may move one block of the model. ``corrects``:
    clients modify the steps of SGD. ``pools``: one client has all the records.
    """

    name: str
    about: str
    options: type[AlgorithmOptions]
    terms: Callable[[Terms, Any], Terms]
    sides: Callable[[Terms, Floats, Any, str], AlgorithmSides]
    private: bool = False
    masks: bool = False
    corrects: bool = False
    pools: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The options: name, type, range, description and default."""
        return parameters(self.options)

    @property
    def tunable(self) -> Mapping[str, Search]:
        """The options that tuning may search, with their ranges."""
        return searched(self.options)

    def made(self, given: Mapping[str, Any] | None = None) -> AlgorithmOptions:
        """Return the options with these values, or raise ConfigError."""
        names = [one.name for one in self.parameters]
        for name in given or {}:
            if name not in names:
                raise ConfigError(f"{self.name} has no option {_unknown(name, names)}")
        try:
            return self.options(**(given or {}))
        except UsageError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def check(self, *, blocks: int, mechanism: str) -> None:
        """Refuse features of the run file that this algorithm lacks."""
        if blocks > 1 and not self.masks:
            raise ConfigError(f"{self.name} moves all coordinates in every round; leave schedule.blocks out")
        if mechanism != "none" and not self.private:
            able = ", ".join(name for name, one in ALGORITHMS.items() if one.private)
            raise ConfigError(
                f"no certificate covers the messages of {self.name}'s clients, so it has no epsilon; leave privacy.mechanism "
                f"out, or compare with one of {able}"
            )

    def check_objective(self, traits: Traits) -> None:
        """Refuse a model that this algorithm cannot train as defined."""
        if self.corrects:
            check_correctable(self.name, traits)


def algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name, or raise ConfigError with the nearest name."""
    if name not in ALGORITHMS:
        raise ConfigError(f"there is no algorithm {_unknown(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def _unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f'"{name}"; ' + (f'did you mean "{near[0]}"?' if near else f"choose one of {', '.join(known)}")


# -- makers of terms and sides -------------------------------------------------------------------------------------------------


def _own_terms(terms: Terms, options: AlgorithmOptions) -> Terms:
    return terms if options.step_scale == 1 else dataclasses.replace(terms, steps=scaled(terms, options.step_scale))


def _own_sides(terms: Terms, model: Floats, options: AlgorithmOptions, wire: str) -> AlgorithmSides:
    return AlgorithmSides(Server(terms, model), [Client(terms, c, model) for c in range(terms.clients)], terms.rounds)


def in_rounds(terms: Terms, options: RivalOptions) -> Terms:
    """Return the terms of a rival whose clients all take part in each round."""
    return equal_rounds(terms, local_steps(terms, options.local_steps), options.step_scale)


def in_tasks(terms: Terms, options: RivalOptions) -> Terms:
    """Return the terms of a rival whose clients work at their own pace."""
    return tasks(terms, local_steps(terms, options.local_steps), options.step_scale)


def _fedavg(terms: Terms, model: Floats, options: FedAvgOptions, wire: str) -> AlgorithmSides:
    clients = [FedAvgClient(terms, c, model) for c in range(terms.clients)]
    return AlgorithmSides(FedAvgServer(terms, model, options), clients, terms.rounds)


def _fedprox(terms: Terms, model: Floats, options: FedProxOptions, wire: str) -> AlgorithmSides:
    clients = [FedProxClient(terms, c, model, options.mu) for c in range(terms.clients)]
    return AlgorithmSides(FedAvgServer(terms, model, options), clients, terms.rounds)


def _scaffold(terms: Terms, model: Floats, options: FedAvgOptions, wire: str) -> AlgorithmSides:
    clients = [ScaffoldClient(terms, c, model, wire) for c in range(terms.clients)]
    return AlgorithmSides(ScaffoldServer(terms, model, options), clients, terms.rounds)


def _fedasync(terms: Terms, model: Floats, options: FedAsyncOptions, wire: str) -> AlgorithmSides:
    kind = partial(FedAsyncClient, mu=options.mu) if options.mu else TaskClient
    clients = [kind(terms, c, model) for c in range(terms.clients)]
    return AlgorithmSides(FedAsyncServer(terms, model, options, wire), clients, terms.rounds)


def _pooled(terms: Terms, options: RivalOptions) -> Terms:
    return pooled_terms(equal_rounds(terms, local_steps(terms, options.local_steps), options.step_scale))


def _fedbuff(terms: Terms, model: Floats, options: FedBuffOptions, wire: str) -> AlgorithmSides:
    clients = [TaskClient(terms, c, model) for c in range(terms.clients)]
    return AlgorithmSides(FedBuffServer(terms, model, options, wire), clients, FedBuffServer.moves(terms, options))


_ALL = (
    Algorithm(
        OURS,
        "asynchronous, in rounds that grow by the run file's schedule: updates are added as they arrive",
        AlgorithmOptions,
        _own_terms,
        _own_sides,
        private=True,
        masks=True,
    ),
    Algorithm(
        "fedavg",
        "synchronous: the model is the mean of the clients' models, with or without a deadline for stragglers",
        FedAvgOptions,
        in_rounds,
        _fedavg,
        private=True,
    ),
    Algorithm(
        "fedprox",
        "FedAvg whose clients stay near the round's start model",
        FedProxOptions,
        in_rounds,
        _fedprox,
        corrects=True,
    ),
    Algorithm(
        "scaffold",
        "FedAvg with control variates against client drift, for twice the bytes",
        FedAvgOptions,
        in_rounds,
        _scaffold,
        corrects=True,
    ),
    Algorithm(
        "fedasync",
        "asynchronous: every client's model is mixed in on arrival, stale ones less",
        FedAsyncOptions,
        in_tasks,
        _fedasync,
        corrects=True,
    ),
    Algorithm(
        "fedbuff",
        "buffered and asynchronous: the model moves by the mean of every few updates, stale ones less",
        FedBuffOptions,
        in_tasks,
        _fedbuff,
    ),
    Algorithm(
        "pooled",
        "no federation: plain SGD on the records of all clients, an upper reference",
        RivalOptions,
        _pooled,
        _own_sides,
        pools=True,
    ),
)
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({one.name: one for one in _ALL})
