"""A fuzz of terms texts: each becomes terms or one sentence, and noise hides what accepted private terms release.

``python -m tests.federation.fuzz_terms 100000`` tries so many; a seed may follow. It ends at the first that fails, and prints it.
The suite tries 2,000. What was accepted is changed further, so that texts wander out to the edges of what is accepted.

What is looked at in accepted private terms does not rest on the certificate's own conditions: the lattice (what is to be hidden
is at most 2^50 steps of the grid), absorption (a real release that begins at the longest model moves by what the noise moves) and
the scale of the noise, for rounds and clients that are picked at random and at the ends.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.federation.agreement import LONGEST, Agreement, build_terms
from crescendo.federation.objective_terms import Described
from crescendo.federation.policy import Policy
from crescendo.objectives import Traits
from crescendo.objectives.base import clipped
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.gaussian import grid, noised, word_of
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.privacy.mechanisms.rounding import most_drawn
from tests.federation.terms_texts import at, canonical, changed, paths, put, sound
from tests.objectives.bare import Bare

NOT_FORESEEN = "the terms cannot be used"  # how a sentence begins about a mistake of ours
POLICY = Policy(mechanisms=("none", "minibatch", "local", "batch-clip"), epsilon=1e9, delta=0.999)
MOST_SECONDS = 60.0  # of processor time for one text
MOST_BYTES = 3 << 30  # of memory for the whole fuzz
ROWS = np.arange(6, dtype=np.int64)
POOL, LONG = 200, 20_000  # accepted texts that are changed further, and letters of one
SMALL, SHORT = 300, 20_000  # numbers of a model and slots of a round that are really released


@dataclass
class Found:
    """What became of the texts."""

    outcomes: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    most_multiples: float = 0.0  # log2 of the largest number to be hidden, over the grid
    scales: tuple[float, float] = (math.inf, 0.0)
    slowest: tuple[float, str] = (0.0, "")

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.outcomes.most_common())
        return (
            f"{counts}; {self.releases:,} releases; at most 2^{self.most_multiples:.1f} steps of the grid; noise from "
            f"{self.scales[0]:.3g} to {self.scales[1]:.3g}; slowest {self.slowest[0]:.1f} s: {self.slowest[1]:.1500}"
        )


def fuzz(count: int, seed: int) -> Found:
    """Try so many texts; AssertionError, with the text, for one that does not do."""
    found, pool = Found(), list(sound())
    first = len(pool)
    while (n := sum(found.outcomes.values())) < count:
        rng = Random(f"{seed} {n}")
        base = rng.choice(pool[first:] or pool) if rng.random() < 0.6 else rng.choice(pool[:first])
        if rng.random() < 0.01:
            to_the_edge(base, rng, found)
            continue
        text = changed(rng, base)
        if look_at(text, rng, found) and len(text) < LONG:
            pool.append(text)
            if len(pool) > first + POOL:
                del pool[first + rng.randrange(POOL)]
    return found


def to_the_edge(text: str, rng: Random, found: Found) -> None:
    """Move one number of accepted terms as far as they are still accepted, and a little further."""
    raw = json.loads(text)
    numbers = [path for path in paths(raw) if path and isinstance(at(raw, path), float) and at(raw, path)]
    path = rng.choice(numbers)
    old, way = at(raw, path), rng.choice((-1, 1))

    def accepts(power: float) -> bool:
        moved = json.loads(text)
        put(moved, path, old * 10.0 ** (way * power))
        return look_at(canonical(moved), rng, found)

    low, high = 0.0, 1.0
    while high < 300 and accepts(high):
        low, high = high, min(4 * high, 300.0)
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(middle) else (low, middle)


def look_at(text: str, rng: Random, found: Found) -> bool:
    """One text: a sentence, or terms; and what accepted private terms promise. True for terms."""
    began = time.process_time()
    try:
        return _look_at(text, rng, found)
    except BaseException as error:
        error.add_note(f"the text: {text[:2000]}")
        raise
    finally:
        found.slowest = max(found.slowest, (time.process_time() - began, text))


def _look_at(text: str, rng: Random, found: Found) -> bool:
    try:
        agreed = build_terms(text)
        POLICY.check_terms(agreed)
    except CrescendoError as error:
        said = str(error)
        if said.startswith(NOT_FORESEEN):
            raise AssertionError(said) from error.__cause__
        assert said.isprintable() and 10 < len(said) < LONGEST, f"not a sentence: {said!r}"
        found.outcomes["refused"] += 1
        return False
    found.outcomes["accepted" if agreed.certificate is None else "accepted with privacy"] += 1
    for i, c in pairs(agreed, rng):
        assert math.isfinite(agreed.terms.etas(i, c).max(initial=0.0)) or agreed.certificate is None
        if agreed.certificate is not None and agreed.terms.share(i, c):
            check_round(agreed.certificate, i, c, found)
            check_release(agreed.certificate, i, c, found)
    return True


def pairs(agreed: Agreement, rng: Random) -> Iterator[tuple[int, int]]:
    """Rounds and clients at the ends and in between."""
    rounds, clients = agreed.terms.rounds, agreed.terms.clients
    for i in {0, rounds - 1, rng.randrange(rounds)}:
        for c in {0, clients - 1, rng.randrange(clients)}:
            if agreed.terms.share(i, c) <= 10 * SHORT:
                yield i, c


def check_round(made: Certificate, i: int, c: int, found: Found) -> None:
    """The rate is a probability, L2 enlarges nothing, the scale is a float with all its bits, and the grid is fine enough."""
    terms, records = made.terms, made.records[c]
    rate, share = Fraction(made.rate(i, c)), terms.share(i, c)
    assert 0 < rate <= 1 and rate >= Fraction(share, records) and (rate * 2**53).denominator == 1
    step = float(np.abs(terms.etas(i, c)).max()) * terms.blocks
    whole = made.mechanism == "batch-clip"  # the displacement is clipped, whatever L2 made of it
    assert whole or 0 <= step * made.objective.traits.l2 <= 1.0
    scale = made.noise_scale(i, c)
    if made.layers is not None:
        assert sum(Fraction(clip) ** 2 for clip in made.layers.clips) <= Fraction(made.clip) ** 2
        assert made.layers.numbers == made.objective.size and not whole
    exact = Fraction(made.sigma(i)) * Fraction(2.0 if whole else step) * Fraction(made.clip)
    assert sys.float_info.min * 2**100 < scale < sys.float_info.max / 2**100 and Fraction(scale) >= exact
    drawn = float(most_drawn([share], [records])[0])
    largest = made.clip * (1.001 if whole else step * drawn * 1.001)
    largest += made.model_bound if made.mechanism == "local" else 0.0
    assert largest <= 2.0**50 * grid(scale), f"{largest / grid(scale):g} steps of the grid in round {i} of client {c}"
    found.most_multiples = max(found.most_multiples, math.log2(largest / grid(scale)))
    found.scales = min(found.scales[0], scale), max(found.scales[1], scale)


class Chosen(SeededSource):
    """Every record is drawn, and every number has the same noise."""

    def __init__(self, z: float) -> None:
        super().__init__(0, 0)
        self._z = z

    def members(self, i: int, records: int, rate: float) -> Any:
        return np.arange(records)

    def words(self, i: int, size: int) -> Any:
        return word_of(np.full(size, self._z))


class Standin(Bare):
    """A model in place of one that is only described: steep, and in the direction of its records."""

    def __init__(self, described: Described) -> None:
        self.size, self.dtype, self._l2 = described.size, described.dtype, described.l2

    @property
    def traits(self) -> Traits:
        return Traits(l2=self._l2)

    def gradient(self, w: Any, data: Records, rows: Any) -> Any:
        return np.full(self.size, 1e30 * float(data.y[0]))


def check_release(made: Certificate, i: int, c: int, found: Found) -> None:
    """From the longest start model there is: noise that differs by two deviations moves what leaves by two deviations."""
    if made.objective.size > SMALL or made.terms.share(i, c) > SHORT:
        return
    goal = made.objective
    if isinstance(goal, Described):
        goal = Standin(goal)
        made = replace(made, objective=goal)
    width = goal.traits.features or 3
    x = np.ones((len(ROWS), width)) * min(1.0, (made.norm_bound or 1.0) / 4 / math.sqrt(width))
    data = Records(x, np.resize([1.0, -1.0, 1.0], len(ROWS)))
    start = np.zeros(goal.size)
    start[-1] = made.model_bound
    low, high = [_released(made, i, c, data, start, z) for z in (-1.0, 1.0)]
    scale = made.noise_scale(i, c)
    for released in (low, high):
        assert all(np.isfinite(numbers).all() for numbers in released), "a release is not finite"
    moved = (high[0] - low[0]) / (2 * scale)
    assert (np.abs(moved - 1) < 1e-4).all(), f"noise is absorbed in round {i} of client {c}: {moved}"
    multiples = low[0] / grid(scale)
    assert (multiples == np.rint(multiples)).all(), "a release is off the grid"
    found.releases += 1


def _released(made: Certificate, i: int, c: int, data: Records, start: Any, z: float) -> tuple[Any, Any]:
    """What noise was added to, with it; and what leaves the client in the end, public shrink included."""
    mechanism = Private(made, c, ROWS, Chosen(z))
    stepper = mechanism.stepper(made.objective, data)
    begin = mechanism.start(start)
    stepper.load(begin)
    slots = mechanism.draw(i, made.objective.size)
    stepper.advance(slots, 0, len(slots.etas))
    released = mechanism.release(i, begin, stepper)
    low, high = made.terms.block(i, made.objective.size)
    hidden = stepper.gradients() if hasattr(stepper, "gradients") else begin[low:high] - stepper.read()[low:high]
    if made.mechanism == "batch-clip":
        hidden = clipped(hidden, made.clip)
        assert math.hypot(*hidden) <= made.clip * (1 + made.slack), "what is hidden is longer than the clip"
    words = word_of(np.full(len(hidden), z))
    return noised(hidden, made.noise_scale(i, c), words, lambda number: itertools.repeat(1)), released


def main(words: list[str]) -> int:
    count, seed = int(words[0]) if words else 100_000, int(words[1]) if len(words) > 1 else 0
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    found = fuzz(count, seed)
    print(f"seed {seed}: {found}")
    return int(found.slowest[0] > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
