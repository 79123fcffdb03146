"""Black-box attack on any callable ``(records, rng) -> release``. Is the epsilon that it claims true?

Theory of operation
-------------------
The only assumption about the mechanism is that it keeps no state from one call to the next. Neighbouring data sets
are made of example records and canaries (`neighbours`). A run tosses a fair coin for one of the two data sets and calls
the mechanism on it.

1. *Screening.* Every pair of data sets is run for a while. Statistics are learned from one half of the releases and thresholds
   from the other (`distinguishers`); the half of the pairs that differs most goes on, until one is left.
2. *Test.* A few rules, fixed by now, are counted on fresh runs of that pair, at three looks. The bound on epsilon
   (`epsilon_bounds`) is exact, and the risk of a wrong verdict is shared out over rules and looks, so that a mechanism that keeps
   its promise fails with probability ``1 - confidence`` at most, whatever the rules are.

A mechanism that returns the same release in every run and another one for a neighbour seems to have no noise. It is put to the
test without further search; and if it draws nothing from ``rng``, and goes on like that, it fails whatever it claims.

Its limits: n runs can show an epsilon of about ln(n / 30) at most, and no delta below 1 / n. A passed audit is not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from crescendo_dp.arrays import Array, Bools, Floats
from crescendo_dp.black_box.distinguishers import RANKED, Rule, last_bits
from crescendo_dp.black_box.epsilon_bounds import epsilon_bound, gaussian_bound
from crescendo_dp.black_box.neighbours import Neighbours, Pair

_Runner: TypeAlias = Callable[[Pair, Bools, np.random.Generator], Floats]
"""Calls the mechanism once for each coin, on ``with_it`` where it is true; a row for each release."""

Progress: TypeAlias = Callable[[int, int], None]

SCREENING, CHOOSING, TRAINING = 0.08, 0.12, 0.15  # of all runs; the rest is the test
_LEAST = 64  # runs of a pair
_FINALISTS = 2
_LOOKS = ((1 / 16, 0.1), (1 / 4, 0.2), (1.0, 0.7))  # a share of the test, and its share of what may go wrong
CELLS = 20_000_000  # numbers of releases that are held at once
_ALIKE = 16  # runs of each kind that return one release before it is tried whether all do
_MOST_ALIKE = 200_000


@dataclass(frozen=True)
class BlackBoxReport:
    """Plain data. ``lower`` holds with probability ``confidence``; infinite if there is no noise at all.

    ``most`` is the highest bound that so many runs could have shown; ``lower_gaussian`` was asked for or is None.
    """

    mechanism: str
    claimed: float
    delta: float
    confidence: float
    neighbours: Neighbours
    lower: float
    lower_gaussian: float | None
    most: float
    pair: str
    statistic: str
    hits: int
    others: int
    tested: int
    runs: int
    size: int
    findings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        """Return the verdict, the bound, and the attack that found it, a line each."""
        bound = (
            f"epsilon is {self.lower:.4g} or more, with {self.confidence:.4g} confidence; {self.claimed:g} is claimed"
        )
        how = f"{self.runs:,} runs on {self.pair}, told apart by {self.statistic}; they could show {self.most:.3g} at most"
        return "\n".join(
            [f"{self.mechanism} {'passed' if self.passed else 'failed'}", bound, how, *self.findings, *self.notes]
        )

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object, with the verdict."""
        return {"verdict": "passed" if self.passed else "failed", **asdict(self)}


@dataclass(frozen=True)
class Claim:
    """The claim under test, and the confidence that a verdict against it needs."""

    epsilon: float
    delta: float
    confidence: float = 0.999
    neighbours: Neighbours = "add"
    gaussian: bool = False  # whether releases are known to be Gaussian
    floats: bool = False  # whether the last bits of the floats count


def attack(
    name: str,
    run: _Runner,
    pairs: Sequence[Pair],
    claim: Claim,
    *,
    runs: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> BlackBoxReport:
    """Attack a mechanism with about ``runs`` calls of it; one seed gives one answer if ``rng`` is all its randomness."""
    with np.errstate(all="ignore"):  # releases may be of any size
        return _Attack(name, run, list(pairs), claim, runs, seed, progress).report()


class _Attack:
    def __init__(
        self, name: str, run: _Runner, pairs: list[Pair], claim: Claim, runs: int, seed: int, progress: Progress | None
    ) -> None:
        self.name, self.run, self.pairs, self.claim, self.runs, self.progress = name, run, pairs, claim, runs, progress
        self.coins, self.rng = np.random.Generator(np.random.PCG64(seed)).spawn(2)
        self.done, self.size = 0, 1
        self.seen: list[tuple[Floats, Bools]] = [(np.empty((0, 0)), np.empty(0, dtype=bool)) for _ in pairs]
        self.test = max(_LEAST, round((1 - SCREENING - CHOOSING - TRAINING) * runs))
        self.alpha = 1 - claim.confidence
        self.level = (self.alpha / 2 if claim.gaussian else self.alpha) * _LOOKS[-1][1] / (_FINALISTS + 2)

    def report(self) -> BlackBoxReport:
        bare, drew = self.screen()
        if bare is not None and not drew and self.stays_constant(bare):
            says = "the release is the same in every run, and another one for a neighbour: there is no noise"
            return self.reported(self.pairs[bare], [], math.inf, None, (says,))
        best = self.chosen() if bare is None else bare
        rules = self.rules(best)
        finalists = [*rules[:_FINALISTS], *(rules[0].nearby(self.seen[best][0]) if rules else ())]
        found = self.tested(self.pairs[best], finalists, self.central(best, rules))
        return replace(found, notes=tuple(self.notes(found, best)))

    def notes(self, found: BlackBoxReport, best: int) -> Iterator[str]:
        claim = self.claim
        if found.passed and found.most <= claim.epsilon:
            yield f"so many runs could show {found.most:.3g} at most, and cannot deny {claim.epsilon:g}; give it more of them"
        if found.passed and not claim.floats:
            seen = self.seen[best][0][:RANKED], self.seen[best][1][:RANKED]
            expected = (
                Rule.best(bits, *seen, self.level, claim.delta, self.test).expected for bits in last_bits(*seen)
            )
            if max(expected, default=0.0) > claim.epsilon:
                yield "the last bits of its floats seem to give the record away, as those of most noise do: see with --floats"

    # -- screening -----------------------------------------------------------------------------------------------------

    def draw(self, pair: Pair, count: int) -> tuple[Floats, Bools]:
        coins = self.coins.integers(0, 2, count).astype(bool)
        releases = self.run(pair, coins, self.rng)
        self.done, self.size = self.done + count, releases.shape[1]
        if self.progress is not None:
            self.progress(self.done, max(self.runs, self.done))
        return releases, coins

    def screen(self) -> tuple[int | None, bool]:
        """A first look at every pair. One without noise ends it: which, and whether anything was drawn from ``rng``."""
        for i in range(len(self.pairs)):
            before = repr(self.rng.bit_generator.state)
            self.more(i, _LEAST)
            if _told_apart(*self.seen[i]):
                return i, repr(self.rng.bit_generator.state) != before
        for i in range(len(self.pairs)):
            self.more(i, round(SCREENING * self.runs / len(self.pairs)) - _LEAST)
        return None, True

    def stays_constant(self, i: int) -> bool:
        """Does every run return the same release, in as many runs as would disprove the claimed epsilon, if there is time?"""
        releases, present = self.seen[i]
        rows = np.stack([releases[~present][0], releases[present][0]])
        left = min(math.ceil(20 * math.exp(min(self.claim.epsilon, 20.0))) + 1_000, _MOST_ALIKE, self.runs)
        while left > 0:
            releases, coins = self.draw(self.pairs[i], min(left, max(1, CELLS // 5 // self.size)))
            if (releases != rows[coins.astype(int)]).any():
                return False
            left -= len(coins)
        return True

    def more(self, i: int, count: int) -> None:
        """Further runs of pair i, to learn from; as many as fit into memory."""
        held, coins = self.seen[i]
        count = min(count, max(_LEAST, CELLS // self.size) - len(held))
        if count > 0:
            releases, tossed = self.draw(self.pairs[i], count)
            self.seen[i] = np.concatenate([held, releases]) if len(held) else releases, np.append(coins, tossed)

    def rules(self, i: int) -> list[Rule]:
        return Rule.learned(*self.seen[i], self.level, self.claim.delta, self.test, self.claim.floats)

    def chosen(self) -> int:
        """The pair that differs most: after each look the better half goes on, and the best one is run at length."""
        left = self.ranked(range(len(self.pairs)))
        looks = max(1, math.ceil(math.log2(len(left))))
        while len(left) > 1:
            for i in left[(len(left) + 1) // 2 :]:
                self.seen[i] = self.seen[i][0][:0].copy(), self.seen[i][1][:0]  # its memory is free again
            left = left[: (len(left) + 1) // 2]
            for i in left:
                self.more(i, round(CHOOSING * self.runs / looks / len(left)))
            left = self.ranked(left)
        self.more(left[0], round(TRAINING * self.runs))
        return left[0]

    def ranked(self, which: Sequence[int]) -> list[int]:
        """Order pairs by the difference that is certain: anything beyond it in a few runs is luck."""
        sure = {i: max(((rule.sure, rule.gap) for rule in self.rules(i)), default=(0.0, 0.0)) for i in which}
        return sorted(which, key=lambda i: sure[i], reverse=True)

    # -- test ----------------------------------------------------------------------------------------------------------

    def central(self, i: int, rules: list[Rule]) -> list[Rule]:
        """The rule that measures a shift, if releases are Gaussian."""
        if not self.claim.gaussian or not rules:
            return []
        widest = max(rules, key=lambda rule: rule.gap)
        return [widest.centred(self.seen[i][0][1::2], self.seen[i][1][1::2])]

    def tested(self, pair: Pair, rules: list[Rule], central: list[Rule]) -> BlackBoxReport:
        """Counts of fresh runs. A bound above the claim ends the test: more runs could only raise it."""
        alpha = self.alpha / 2 if self.claim.gaussian else self.alpha
        counts, tosses, done = np.zeros((len(rules) + len(central), 2), dtype=int), np.zeros(2, dtype=int), 0
        lower, best = 0.0, 0
        for share, risk in _LOOKS if rules else ():
            while done < round(share * self.test):
                batch = min(round(share * self.test) - done, max(1, CELLS // 5 // self.size))
                releases, coins = self.draw(pair, batch)
                counts += [rule.counts(releases, coins) for rule in (*rules, *central)]
                tosses += [int(coins.sum()), int((~coins).sum())]
                done += batch
            for i, (hits, others) in enumerate(counts[: len(rules)]):
                bound = epsilon_bound(int(hits), int(others), done, alpha * risk / len(rules), self.claim.delta)
                lower, best = max((lower, best), (bound, i), key=lambda found: found[0])
            if lower > self.claim.epsilon:
                break
        gaussian = None
        if central:
            (hits, others), (present, absent) = counts[-1].tolist(), tosses.tolist()
            gaussian = gaussian_bound(hits, present, others, absent, self.alpha / 2 / len(_LOOKS), self.claim.delta)
        shown = [(kind, bound) for kind, bound in (("", lower), (", as releases are Gaussian", gaussian)) if bound]
        findings = tuple(
            f"epsilon is {bound:.4g} or more{kind}, and {self.claim.epsilon:g} is claimed"
            for kind, bound in shown
            if bound > self.claim.epsilon
        )
        return self.reported(pair, rules[best : best + 1], lower, gaussian, findings, counts[best : best + 1], done)

    def reported(
        self,
        pair: Pair,
        rule: list[Rule],
        lower: float,
        gaussian: float | None,
        findings: tuple[str, ...],
        counts: Array | Sequence[Sequence[int]] = (),
        tested: int = 0,
    ) -> BlackBoxReport:
        claim = self.claim
        hits, others = (int(count) for count in counts[0]) if len(counts) else (0, 0)
        return BlackBoxReport(
            mechanism=self.name,
            claimed=claim.epsilon,
            delta=claim.delta,
            confidence=claim.confidence,
            neighbours=claim.neighbours,
            lower=lower,
            lower_gaussian=gaussian,
            most=epsilon_bound(self.test // 2, 0, self.test, self.level, claim.delta),
            pair=pair.says,
            statistic=rule[0].statistic.name if rule else "the release itself",
            hits=hits,
            others=others,
            tested=tested,
            runs=self.done,
            size=self.size,
            findings=findings,
        )


def _told_apart(releases: Floats, present: Bools) -> bool:
    """One release with the record, one without it, and not the same."""
    yes, no = releases[present], releases[~present]
    if min(len(yes), len(no)) < _ALIKE:
        return False
    return bool((yes == yes[0]).all() and (no == no[0]).all() and (yes[0] != no[0]).any())
