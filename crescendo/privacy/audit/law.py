"""Who is drawn, seen from what is sent: with the noise off, each release of one or two records tells the draw behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crescendo.privacy.audit.scenes import Scene, random_scene
from crescendo.privacy.audit.statistics import clopper_pearson
from crescendo.privacy.audit.subject import Draw, Script, Silent, Subject, releases

Floats = npt.NDArray[np.float64]

ALPHA = 1e-7  # of each of the comparisons: a right sampler fails one audit in a million
LEAST_APART = 1e-4  # of the sensitivity, between any two outcomes: far more than the wire's rounding
OUTCOMES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1))


@dataclass
class Law:
    """Observed rates over certified ones. ``rate_low`` is a bound from below on the share of the certified rate."""

    rate_low: float = 1.0
    draws: int = 0
    found: dict[str, str] = field(default_factory=dict)


def sampling_law(subject: Subject, rng: np.random.Generator, runs: int, alpha: float) -> Law:
    """Each of one or two records is drawn with the certified rate, at most once, whatever the other does."""
    law, rounds, subject = Law(draws=runs), subject.pairs()[-1], subject.without_noise()
    scene = _distinct(subject, rng)
    if scene is None:
        law.found["sampling"] = "no two records could be told apart in what is sent"
        return law
    drawn = {}
    for records in (1, 2):
        try:
            drawn[records] = _observed(subject, scene, records, rounds, runs, rng)
        except Silent as error:
            law.found["silence"] = str(error)
        except Exception as error:
            law.found["stopped"] = f"ordinary records stopped the run: {error}"
    if len(drawn) < 2:
        return law
    unexplained = sum(int((seen < 0).sum()) for seen in drawn.values())
    if unexplained:
        law.found["sampling"] = f"{unexplained} releases are not explained by any draw of distinct records"
    for r, i in enumerate(rounds):
        _compare(subject, law, i, {records: seen[:, r] for records, seen in drawn.items()}, alpha)
    return law


def _compare(subject: Subject, law: Law, i: int, seen: dict[int, npt.NDArray[np.int64]], alpha: float) -> None:
    """Counts of a round against the certified rate q: each record q, both q^2."""
    rate = subject.certificate.rate(i, subject.me)
    one, two = seen[1], seen[2]
    counts = [
        ("a record on its own", int((one == 1).sum()), rate),
        ("a record beside another", int(np.isin(two, (1, 3)).sum()), rate),
        ("the other record", int(np.isin(two, (2, 3)).sum()), rate),
        ("both records together", int((two == 3).sum()), rate**2),
    ]
    for what, hits, expected in counts:
        low, high = clopper_pearson(hits, len(one), ALPHA)
        if not low <= expected * (1 + 1e-9) or not expected * (1 - 1e-9) <= high:
            law.found.setdefault(
                "sampling",
                f"{what} was drawn {hits} times in {len(one)} draws of round {i}, certified is a rate of {expected:.4g}",
            )
    if rate > 0:
        law.rate_low = min(law.rate_low, clopper_pearson(counts[0][1], len(one), alpha)[0] / rate)


def _outcomes(subject: Subject, scene: Scene, rounds: tuple[int, ...], records: int) -> list[list[Floats]]:
    """What is sent, per round, for each draw that can be."""
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    made: list[list[Floats]] = [[] for _ in rounds]
    for outcome in OUTCOMES[: 2 if records == 1 else 4]:
        members = np.array(outcome, dtype=np.int64)
        draw = Draw(members, (members + 0.5) / records)
        sent = releases(subject, data, np.arange(records), Script(dict.fromkeys(rounds, draw)), rounds, starts)
        for r, release in enumerate(sent):
            made[r].append(release)
    return made


def _distinct(subject: Subject, rng: np.random.Generator) -> Scene | None:
    """Two records whose draws can be told apart in every audited round."""
    rounds = subject.pairs()[-1]
    best: tuple[float, Scene | None] = (LEAST_APART, None)
    for _ in range(60):
        scene = random_scene(subject, rng, others=1)
        try:
            made = _outcomes(subject, scene, rounds, 2)
        except Exception:  # the search for scenes that stop a run is another test's
            continue
        apart = [
            min(np.linalg.norm(a - b) for k, a in enumerate(outcomes) for b in outcomes[:k])
            / subject.certificate.sensitivity(i, subject.me)
            for outcomes, i in zip(made, rounds, strict=True)
        ]
        if min(apart) > best[0]:
            best = float(min(apart)), scene
        if best[0] > 0.2:
            break
    return best[1]


def _observed(
    subject: Subject, scene: Scene, records: int, rounds: tuple[int, ...], runs: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """For every run and round the number of the outcome that was seen; -1 for none."""
    made = [np.array(outcomes) for outcomes in _outcomes(subject, scene, rounds, records)]
    data, starts = scene.data(subject.features), tuple(scene.start for _ in rounds)
    near = [LEAST_APART / 4 * subject.certificate.sensitivity(i, subject.me) for i in rounds]
    seen = np.empty((runs, len(rounds)), dtype=np.int64)
    for run in range(runs):
        source = Script(behind=subject.sources(int(rng.integers(2**62))))
        for r, sent in enumerate(releases(subject, data, np.arange(records), source, rounds, starts)):
            apart = np.linalg.norm(made[r] - sent, axis=1)
            nearest = int(np.argmin(apart))
            seen[run, r] = nearest if apart[nearest] < near[r] else -1
    return seen
