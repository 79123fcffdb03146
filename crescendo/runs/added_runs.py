"""Total privacy cost of several runs on the same records, client by client.

There are two totals, since the runs may have been chosen in two ways.

- *Added up.* If later runs were chosen after looking at earlier ones, epsilons add up and deltas add up. This holds for every
  way of choosing (Rogers and others 2016), and a ledger counts in this way.
- *Together.* If all runs were settled before the first began, their releases are one long run, whose tight epsilon, at the same
  delta, is smaller.

Clients of one name are taken to hold the same records. A client in only one run spends the epsilon of that run.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from crescendo.errors import ConfigError
from crescendo.runs.statements import ClientAccount, Statement
from crescendo_dp.accounting.epsilon import Progress, Spent, account
from crescendo_dp.directed_rounding import down, sum_up
from crescendo_dp.events import tally
from crescendo_dp.meaning.odds_and_attacks import Meaning

SAYS = (
    "the sum added up holds even if later runs were chosen after looking at earlier ones; together holds only if all runs were "
    "settled before the first began. Clients of one name are taken to hold the same records"
)


@dataclass(frozen=True)
class AddedClient:
    """One client over several runs."""

    name: str
    runs: int
    added: float  # the sum of its epsilons
    delta: float  # the sum of its deltas
    together: Spent

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "runs": self.runs,
            "added_epsilon": None if self.added == math.inf else self.added,
            "delta": self.delta,
            "together": self.together.to_json(),
        }


@dataclass(frozen=True)
class AddedRuns:
    """The cost of runs on the same records; ``clients`` are sorted by their epsilon, the largest first."""

    runs: tuple[Statement, ...]
    clients: tuple[AddedClient, ...]

    @classmethod
    def of(cls, runs: Sequence[Statement], progress: Progress | None = None) -> Self:
        """Add up statements. Refuse one that claims no privacy or whose epsilon is withheld."""
        for one in runs:
            if one.withheld:
                raise ConfigError(f"{one.what} cannot be added up: {one.says}")
            if not one.clients:
                raise ConfigError(
                    f"{one.what} claims no privacy, so the total cost of the runs has no bound; add up private runs only"
                )
        by_name: dict[str, list[tuple[Statement, ClientAccount]]] = defaultdict(list)
        for one in runs:
            for client in one.clients:
                by_name[client.name].append((one, client))
        clients = []
        for done, (name, parts) in enumerate(by_name.items()):
            clients.append(_added(name, parts))
            if progress is not None:
                progress(done + 1, len(by_name))
        return cls(tuple(runs), tuple(sorted(clients, key=lambda client: client.added, reverse=True)))

    def meaning(self) -> Meaning:
        """Return the meaning of the sum for the client that spends most."""
        most = self.clients[0]
        return Meaning(most.added, most.delta, ((most.added, most.delta),))

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [{"what": one.what, "epsilon": one.epsilon, "delta": one.delta} for one in self.runs],
            "says": SAYS,
            "meaning": self.meaning().to_json(),
            "clients": [client.to_json() for client in self.clients],
        }


def _added(name: str, parts: Sequence[tuple[Statement, ClientAccount]]) -> AddedClient:
    delta = math.fsum(one.delta or 0.0 for one, _ in parts)
    if not delta < 1:
        raise ConfigError(
            f"the deltas of {name}'s runs add up to {delta:g}, and at 1 or more an epsilon has no meaning; account at a smaller "
            "--delta"
        )
    rare = math.fsum(one.failure for one, _ in parts)
    events = tally(pair for _, client in parts for pair in client.events)
    return AddedClient(
        name,
        len(parts),
        math.fsum(client.spent.epsilon for _, client in parts),
        delta,
        account(events, down(delta, rare)),
    )


# -- the runs of a study ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyTotal:
    """The total cost of a study's private runs: at most ``epsilon`` at ``delta``, over ``runs`` on the same records.

    Epsilons add up and deltas add up, as a ledger adds its promises. The sum bounds every client's total, since a run's epsilon
    is that of the client that spends most. A ledger may also count by one Renyi order, which it fixed together with a part of
    delta before the first release; a study fixes no order beforehand, so it may not take the smaller of the two sums afterwards.

    Every run that began counts, including tuning trials and runs that broke off, since their releases were made. A seed counts as
    often as it is run: a simulation repeats its noise, and a real federation would not.

    >>> one = {"epsilon": 1.0, "delta": 1e-6}
    >>> print(StudyTotal.of([one, one]).sentence())
    all 2 private runs of this study together cost at most epsilon 2 at delta 2e-06, as they are on the same records
    >>> StudyTotal.of([None]) is None
    True
    """

    runs: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, runs: Iterable[Mapping[str, Any] | None]) -> Self | None:
        """Add up the costs of all runs that began, where None is a run without privacy. Return None if there is no sum."""
        spent = [one for one in runs if one is not None]
        if not spent or any("withheld" in one for one in spent):  # a run with a withheld epsilon leaves no sum
            return None
        epsilons = [math.inf if one["epsilon"] is None else float(one["epsilon"]) for one in spent]
        return cls(len(spent), sum_up(epsilons), sum_up([float(one["delta"]) for one in spent]))

    def sentence(self) -> str:
        """Return the total as a sentence without its full stop."""
        if self.runs == 1:
            return f"the one private run of this study costs at most epsilon {_up(self.epsilon)} at delta {_up(self.delta)}"
        which = f"all {self.runs:,} private runs of this study together"
        if self.epsilon == math.inf or self.delta >= 1:
            return f"{which} have no guarantee: they are on the same records, and their epsilons and deltas add up to too much"
        cost = f"cost at most epsilon {_up(self.epsilon)} at delta {_up(self.delta)}"
        return f"{which} {cost}, as they are on the same records"

    def to_json(self) -> dict[str, Any]:
        """Return the total as plain data, with None for an infinite epsilon."""
        return {
            "runs": self.runs,
            "epsilon": None if self.epsilon == math.inf else self.epsilon,
            "delta": self.delta,
        }


def _up(value: float) -> str:
    """Return the number with four figures, rounded up.

    >>> _up(1.23411), _up(2.0), _up(2e-6)
    ('1.235', '2', '2e-06')
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.4g}"
