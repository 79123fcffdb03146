"""Privacy panel of a run's report: the epsilon spent over the rounds, its meaning, and the conditions it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.privacy.guarantee import Guarantee
from crescendo.report.inequalities import privacy_row
from crescendo.report.numbers import number, short

_MOST_COURSES = 8
_MOST_ROWS = 40
_MOST_NAMED = 2  # of more clients with the same releases, their line shows only the number


@dataclass(frozen=True)
class Course:
    """Upper bounds on the epsilon of equal clients after each round, by Renyi divergence.

    If ``tight``, the last value, for the whole run, is the tight accountant's.
    """

    name: str
    epsilons: list[float]
    tight: bool


@dataclass(frozen=True, eq=False)
class PrivacyStory:
    """The content of the privacy panel."""

    rounds: list[int]
    courses: list[Course]  # those that spend most first
    stated: float | None
    verdict: str
    says: str
    clients: list[list[str]]  # name, declared records, epsilon, by Renyi divergence
    clients_left_out: int
    noise: list[list[str]]  # schedule, rounds, sigma, aggregated noise
    conditions: list[list[str]]  # name, requirement, inequality, verdict
    means: list[str]  # the meaning of the largest epsilon
    attacks: tuple[list[float], list[float]]  # false positive rates, and the most true positives of any attack
    notes: list[str]


def privacy_story(result: Any) -> PrivacyStory:
    made: Guarantee = result.prepared.privacy
    names: tuple[str, ...] = result.prepared.names
    certificate, means = made.certificate, made.meaning()
    groups = _alike(made)
    rounds, courses = _courses(made, names, groups[:_MOST_COURSES])
    left_out = sum(map(len, groups[_MOST_COURSES:]))
    accused = [0.0, *np.logspace(-4, 0, 81).tolist()]
    bounds = (
        "The lines are upper bounds at every round, by Renyi divergence, and never exceed the tight epsilon of the whole run, "
        "the dot at the end."
    )
    more = f" {left_out:,} clients that spend less are not drawn." if left_out else ""
    return PrivacyStory(
        rounds=rounds,
        courses=courses,
        stated=made.stated,
        verdict=_verdict(made),
        says=f"Mechanism {certificate.mechanism}, delta {made.delta:g}: {certificate.adjacency}. {bounds}{more}",
        clients=[_row(made, names, group) for group in groups[:_MOST_ROWS]],
        clients_left_out=sum(map(len, groups[_MOST_ROWS:])),
        noise=_noise(made),
        conditions=[privacy_row(one) for one in certificate.conditions],
        means=[f"For {names[made.costliest]}, which spends most:", *_sentences(means.sentences())],
        attacks=(accused, means.drawn(accused)),
        notes=[*_cost_of_noise(result), *_sentences(made.cautions()), made.disclaimer],
    )


def _verdict(made: Guarantee) -> str:
    """Return the accountant's verdict in words."""
    spent = f"no client spends more than epsilon {made.epsilon:.4f} at delta {made.delta:g} over the whole run"
    held = f"Every condition of the {made.certificate.mechanism} mechanism holds, and "
    if made.stated is None:
        return f"{held}{spent}."
    return f"{held}{spent}: within the {made.stated:g} that the run file states."


def _alike(made: Guarantee) -> list[list[int]]:
    """Group the clients by equal releases and records, the group that spends most first."""
    found: dict[Any, list[int]] = {}
    for c, records in enumerate(made.certificate.records):
        found.setdefault((records, made.certificate.plan(c).counted), []).append(c)
    return sorted(found.values(), key=lambda group: -made.spent[group[0]].epsilon)


def _named(names: tuple[str, ...], group: list[int]) -> str:
    return ", ".join(names[c] for c in group) if len(group) <= _MOST_NAMED else f"{len(group):,} equal clients"


def _row(made: Guarantee, names: tuple[str, ...], group: list[int]) -> list[str]:
    spent, records = made.spent[group[0]], made.certificate.records[group[0]]
    return [_named(names, group), f"{records:,}", f"{spent.epsilon:.4f}", f"{spent.rdp_epsilon:.4f}"]


def _courses(made: Guarantee, names: tuple[str, ...], groups: list[list[int]]) -> tuple[list[int], list[Course]]:
    """Return the rounds, and a line for each group."""
    courses: list[Course] = []
    rounds: list[int] = []
    for group in groups:
        rounds, epsilons = made.course(group[0])
        courses.append(Course(_named(names, group), epsilons, made.spent[group[0]].method == "pld"))
    return rounds, courses


def _noise(made: Guarantee) -> list[list[str]]:
    """Return the noise of this run, and the noise that other schedules would need for the same epsilon."""
    others, terms = made.compared_to(), made.certificate.terms
    constant, paper = others["constant"], others["paper"]
    rows = [
        ["this run", f"{terms.rounds:,}", f"{made.certificate.sigma:.3g}", short(made.aggregated_noise)],
        [f"constant rounds of {constant['size']:,} per client", *_numbers(constant)],
    ]
    if "why" in paper:
        return [*rows, [f"the paper's recipe: {paper['why']}", "", "", ""]]
    return [*rows, ["the paper's recipe", *_numbers(paper)]]


def _numbers(found: dict[str, Any]) -> list[str]:
    return [f"{found['rounds']:,}", f"{found['sigma']:.3g}", short(found["aggregated_noise"])]


def _sentences(found: list[str]) -> list[str]:
    return [f"{says[:1].upper()}{says[1:]}." for says in found]


def _cost_of_noise(result: Any) -> list[str]:
    twin = result.noise_free
    if twin is None or result.accuracy is None:
        return []
    auc = f" (AUC {number(result.metrics[-1]['auc'])} and {number(twin['auc'])})" if "auc" in twin else ""
    return [
        f"Accuracy {number(result.accuracy)} with the noise, {number(twin['accuracy'])} in the same run without it{auc}."
    ]
