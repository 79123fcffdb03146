"""What all private runs of a study cost together: the one place where a study's epsilons are added.

Runs of a study are on the same records, and later ones may be chosen after a look at earlier ones (tuning does). So epsilons add
up and deltas add up, as a ledger adds what it promised (`crescendo.privacy.accounting.book`, the first of its two ways). That
bounds every client's total, as a run's epsilon is that of the client that spends most. A ledger's second way, by one Renyi order,
has its order fixed and a part of delta set aside before the first release; a study sets nothing aside, and so has no right to
the smaller of the two afterwards.

Every run that began counts, tuning trials and runs that broke off among them: what was released stays released. Equal seeds
count as often as they are run: a simulation repeats its noise, and a real federation would not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from crescendo.privacy.accounting.directed_rounding import sum_up
from crescendo.studies.points import Outcome


@dataclass(frozen=True)
class StudyTotal:
    """At most ``epsilon`` at ``delta``, over ``runs`` on the same records.

    >>> one = Outcome("done", privacy={"epsilon": 1.0, "delta": 1e-6, "sigma": 2.0})
    >>> print(StudyTotal.of([one, one]).sentence())
    all 2 private runs of this study together cost at most epsilon 2 at delta 2e-06, as they are on the same records
    >>> StudyTotal.of([Outcome("done")]) is None
    True
    """

    runs: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self | None:
        """The sum over the outcomes that were private and began; None if there are none."""
        spent = [one.privacy for one in outcomes if one.privacy is not None]
        if not spent:
            return None
        epsilons = [math.inf if one["epsilon"] is None else float(one["epsilon"]) for one in spent]
        return cls(len(spent), sum_up(epsilons), sum_up([float(one["delta"]) for one in spent]))

    def sentence(self) -> str:
        """For people, without a full stop."""
        if self.runs == 1:
            return f"the one private run of this study costs at most epsilon {_up(self.epsilon)} at delta {_up(self.delta)}"
        which = f"all {self.runs:,} private runs of this study together"
        if self.epsilon == math.inf or self.delta >= 1:
            return f"{which} promise nothing: they are on the same records, and their epsilons and deltas add up to too much"
        cost = f"cost at most epsilon {_up(self.epsilon)} at delta {_up(self.delta)}"
        return f"{which} {cost}, as they are on the same records"

    def to_json(self) -> dict[str, Any]:
        """Plain data; an infinite epsilon is None."""
        return {
            "runs": self.runs,
            "epsilon": None if self.epsilon == math.inf else self.epsilon,
            "delta": self.delta,
        }


def _up(value: float) -> str:
    """Four figures, rounded up.

    >>> _up(1.23411), _up(2.0), _up(2e-6)
    ('1.235', '2', '2e-06')
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.4g}"
