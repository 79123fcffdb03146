"""The privacy of a run: a certified mechanism and an epsilon that the accountant confirms.

Every decision here rests on stated numbers, and none on a record. A run is refused unless the accountant confirms its stated
(epsilon, delta) for every client.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.terms import Terms
from crescendo.data.provenance import LookedAt
from crescendo.errors import ConfigError
from crescendo.objectives.base import Objective
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS, certify
from crescendo.privacy.protection import Protection, Withheld
from crescendo.views import html_lines, html_table
from crescendo_dp.accounting import renyi
from crescendo_dp.accounting.epsilon import Progress, Spent, account
from crescendo_dp.events import Counted, Event, tally, to_json
from crescendo_dp.meaning.mu_and_rho import OtherNotions
from crescendo_dp.meaning.odds_and_attacks import Meaning
from crescendo_dp.planning.calibration import least_sigma
from crescendo_dp.planning.comparison import compared
from crescendo_dp.planning.sigmas import Sigmas
from crescendo_dp.planning.target import RARE, Target
from crescendo_dp.sampling_rate import rate_of

_MOST_TIGHT = 8  # with more different plans, only those that need it get the tight accountant

REMINDER = (
    "this epsilon covers one run: trying other settings on the same records adds up",
    "the run was simulated: its noise comes from the seed and protects nobody; in a real federation, whose noise comes from the "
    "operating system, this epsilon holds",
)


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee(Protection):
    """A certified mechanism and each client's privacy cost over the whole run."""

    stated: float | None
    spent: tuple[Spent, ...]

    @classmethod
    def settled(
        cls,
        terms: Terms,
        objective: Objective,
        *,
        mechanism: str,
        delta: float,
        epsilon: float | None,
        sigma: Any,
        clip: Any,
        records: tuple[int, ...],
        norm_bound: float | None,
        looked_at: tuple[LookedAt, ...] = (),
        progress: Progress | None = None,
    ) -> Guarantee | Withheld:
        """Certify the mechanism, settle the noise and confirm ``epsilon``, or refuse.

        If ``sigma`` is None, use the least noise that keeps ``epsilon``. Account nothing for terms that were read off records.
        """
        noise = Sigmas.of(sigma if sigma is not None else planned_sigma(terms, mechanism, records, epsilon, delta))
        certificate = certify(
            mechanism, terms, objective, clip=clip, sigma=noise, records=records, norm_bound=norm_bound
        )
        if looked_at:
            return Withheld(certificate, delta, looked_at)
        left = certificate.usual_delta(delta)
        spent = _spent([certificate.plan(c).counted for c in range(terms.clients)], left, epsilon, progress)
        found = cls(certificate, delta, epsilon, spent)
        if epsilon is not None and found.epsilon > epsilon:
            enough = planned_sigma(terms, mechanism, records, epsilon, delta)
            raise ConfigError(
                f"privacy.epsilon = {epsilon:g} is less than this run costs: with sigma = {noise:g} it is {found.epsilon:.4g} "
                f"at delta {delta:g}; privacy.sigma = {math.ceil(enough * 1000) / 1000:g} would pass"
            )
        return found

    @classmethod
    def of_terms(cls, certificate: Certificate, delta: float) -> Guarantee:
        """Return the guarantee of terms whose noise is settled."""
        left = certificate.usual_delta(delta)
        plans = [certificate.plan(c).counted for c in range(certificate.terms.clients)]
        return cls(certificate, delta, None, _spent(plans, left, None, None))

    def __repr__(self) -> str:
        made = self.certificate
        return (
            f"Guarantee(mechanism={made.mechanism!r}, epsilon={self.epsilon:.4g}, delta={self.delta:g}, sigma={made.sigma:.4g}, "
            f"clients={len(self.spent)})"
        )

    def _repr_html_(self) -> str:
        made, show = self.certificate, "{:,.6g}".format
        conditions = [
            (one.name, show(one.left), show(one.right), "holds" if one.holds else "does not hold")
            for one in made.conditions
        ]
        table = html_table(conditions, ("condition", "left", "right", "")) if conditions else ""
        return html_lines([repr(self), *self.sentences()]) + table

    def sentences(self) -> list[str]:
        """Return the meaning of the epsilon, the warnings and the disclaimer."""
        return [*self.meaning().sentences(), *self.cautions(), self.disclaimer]

    def summary(self) -> str:
        """Return plain text, one line per sentence."""
        return "\n".join([repr(self), *self.sentences()])

    @property
    def epsilon(self) -> float:
        """The epsilon of the client that spends most."""
        return max(spent.epsilon for spent in self.spent)

    @property
    def disclaimer(self) -> str:
        """The sentence that must accompany every epsilon of a simulation."""
        return f"Epsilon: {REMINDER[1]}; {REMINDER[0]}."

    @property
    def costliest(self) -> int:
        """The client that spends most."""
        return max(range(len(self.spent)), key=lambda c: self.spent[c].epsilon)

    def meaning(self) -> Meaning:
        """Return the meaning of the epsilon of the client that spends most."""
        events = self.certificate.plan(self.costliest).counted
        return Meaning.of(events, self.epsilon, self.delta, self.certificate.failure)

    def _notions(self, client: str) -> dict[str, Any]:
        """Return Gaussian DP and zCDP of the client that spends most, under its name; empty if they are unknown."""
        made = self.certificate
        found = OtherNotions.of(made.plan(self.costliest).counted, self.delta, made.failure)
        return {} if found is None else {name: {"client": client, **one} for name, one in found.to_json().items()}

    def compared_to(self) -> dict[str, Any]:
        """Compare the client that spends most with constant rounds of its first size and with the paper, at equal epsilon."""
        made, c = self.certificate, self.costliest
        sizes = [size for i in range(made.terms.rounds) if (size := made.terms.share(i, c))]
        target = Target.checked(self.epsilon, self.delta, made.records[c], sum(sizes), sizes[0])
        return {"client": c, **compared(target, sizes[0])}

    def course(self, c: int, points: int = 200) -> tuple[list[int], list[float]]:
        """Return about ``points`` rounds and client c's epsilon after each: the Renyi bound, capped at the whole run's.

        Both are upper bounds: some of the releases cost no more than all of them.
        """
        rounds = self.certificate.terms.rounds
        shown = np.unique(np.linspace(0, rounds - 1, min(points, rounds)).astype(int)).tolist()
        total, epsilons, done = np.zeros(len(renyi.ORDERS)), [], 0
        for i in shown:
            total = total + renyi.divergences(tally(self._between(c, done, i + 1)))
            done = i + 1
            epsilons.append(min(renyi.epsilon_of(total, self.delta)[0], self.spent[c].epsilon))
        return shown, epsilons

    def _between(self, c: int, first: int, stop: int) -> list[Event]:
        found = (self.certificate.event(i, c) for i in range(first, stop))
        return [event for event in found if event is not None]

    def to_json(self, names: tuple[str, ...], events: bool = False) -> dict[str, Any]:
        """Return plain data: the output of `run --json` or, with the events, the content of `privacy.json`."""
        made = self.certificate
        clients = []
        for c, spent in enumerate(self.spent):
            row: dict[str, Any] = {"name": names[c], "records": made.records[c], **spent.to_json()}
            if events:
                row["events"] = to_json(made.events(c))
            clients.append(row)
        return {
            **self.certified_json(self.epsilon, self.stated),
            **self._notions(names[self.costliest]),
            "clients": clients,
            "notes": list(REMINDER),
        }


def planned_sigma(terms: Terms, mechanism: str, records: tuple[int, ...], epsilon: float | None, delta: float) -> float:
    """Return the least noise that keeps every client at or under epsilon, whatever the step sizes."""
    usual = delta * (1 - RARE)  # rare events take at most the rest
    plans = {_plan(MECHANISMS[mechanism].event, terms, records, c) for c in range(terms.clients)}
    return _planned(tuple(sorted(plans)), epsilon, usual)


def _plan(event: type[Event], terms: Terms, records: tuple[int, ...], c: int) -> Counted:
    """Return client c's rounds as events with a placeholder sigma."""
    slots = Counter(terms.shares_of(c)).items()
    return tally((event(min(1.0, rate_of(share, records[c])), 1.0), count) for share, count in slots if share)


@functools.lru_cache(maxsize=8)  # steps that weigh the noise ask for it before the certificate does
def _planned(plans: tuple[Counted, ...], epsilon: float | None, delta: float) -> float:
    assert epsilon is not None
    costliest = max(plans, key=lambda plan: account(plan, delta, quick=True).epsilon)

    def with_noise(plan: Counted, sigma: float) -> list[tuple[Event, int]]:
        return [(dataclasses.replace(event, sigma=sigma), count) for event, count in plan]

    def quick(sigma: float) -> float:
        return account(with_noise(costliest, sigma), delta, quick=True).epsilon

    def tight(plan: Counted) -> Callable[[float], float]:
        return lambda sigma: account(with_noise(plan, sigma), delta, state_error=False).epsilon

    sigma = least_sigma(tight(costliest), epsilon, start=least_sigma(quick, epsilon, start=1.0))
    for plan in plans:  # the costliest by one bound is nearly always the costliest by the other
        if account(with_noise(plan, sigma), delta, quick=True).epsilon > epsilon and tight(plan)(sigma) > epsilon:
            sigma = least_sigma(tight(plan), epsilon, start=sigma)
    return sigma


def _spent(plans: list[Counted], delta: float, stated: float | None, progress: Progress | None) -> tuple[Spent, ...]:
    """Return each client's spending: tight for the costliest and all that need it, a looser Renyi bound for the rest."""
    quick = {plan: account(plan, delta, quick=True) for plan in set(plans)}
    costliest = max(quick, key=lambda plan: quick[plan].epsilon)
    few = len(quick) <= _MOST_TIGHT
    found: dict[Counted, Spent] = {}
    for plan, bound in quick.items():
        needs = few or plan == costliest or (stated is not None and bound.epsilon > stated)
        found[plan] = account(plan, delta, progress=progress) if needs else bound
    return tuple(found[plan] for plan in plans)
