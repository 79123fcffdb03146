"""The drift attack: one record moves the paper's literal private client by a hundred times what its theorem assumes.

The paper clips every gradient to C and adds noise N(0, C^2 sigma^2) to a round's sum U, as if one record changed U by C. But
within a round the model moves with gradients that have no noise. One ReLU unit relu(w . x) with squared loss is enough:

- All records but one are x = (1, 0) with a target far away. The round begins where their unit is just off, so that their
  gradients are 0.
- One record, x = (1, 1), is on. Its clipped step switches the unit on for all records that follow in the round, and each of
  them then adds C to U.

The rounds are those of the paper's Example 3 (N = 10,000, K = 25,000, first size 16, sigma = 8), for which it claims epsilon = 1
at delta = 5.5e-8. Every round begins at that point: other participants, who see every broadcast, can put the model back there.
The measured epsilon is a lower bound with 99% confidence: a threshold on the largest first coordinate of U over the rounds,
chosen on one half of the runs and counted on the other (Clopper and Pearson). The same attack is then made on `minibatch` with
the same model, and on `local` with logistic regression, where all records stand at the edge of the clip.

    python -m lab.trials.drift_attack --out runs/drift
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.audit.driving.subject import Draw, Script, Subject, build
from crescendo.audit.lower_bounds import Scores
from crescendo.core.arrays import Ints, Vector
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.data.records import Records, as_records
from crescendo.objectives.base import ClippingObjective, Traits
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.schedules.sizes import PowerSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo_dp.accounting.epsilon import account

Floats = npt.NDArray[np.float64]

RECORDS, CLIP, SIGMA, ETA, TARGET = 10_000, 1.0, 8.0, 0.01, 1e3
CLAIMED, DELTA, CONFIDENCE = 1.0, 5.5e-8, 0.99
EDGE = np.array([-ETA * CLIP / 2, 1.0])  # the unit is off for (1, 0), by half of one clipped step, and on for (1, 1)


@dataclass(frozen=True)
class Attacked:
    """The result of an attack: one record's effect on a noise-free release, relative to the assumed one, and epsilon."""

    name: str
    moved: float
    measured: float
    claimed: float
    tight: float
    runs: int


def schedule(rounds: int) -> Terms:
    """Example 3: sizes N q (i + m) with q = 1.3216e-4 and m = 12.106."""
    sizes = PowerSizes(RECORDS * 1.3216e-4, power=1.0, shift=12.106)
    return Terms(sizes, ConstantSteps(ETA), (1.0,), rounds, ahead=1, whole_rounds=True)


class Unit(ClippingObjective):
    """One ReLU unit, loss (relu(w . x) - y)^2 / 2."""

    size, dtype, traits = 2, np.dtype(np.float64), Traits(features=2, clips=True)

    def initial(self, rng: np.random.Generator) -> Vector:
        return EDGE.copy()

    def gradient(
        self,
        w: Vector,
        data: Records,
        rows: Ints,
        clip: float | None = None,
        block: Any = None,
        unit: float | None = None,
    ) -> Floats:
        found = unit_gradients(w, np.asarray(data.x)[rows], data.y[rows], clip)
        return np.asarray((found if unit is None else np.rint(found / unit) * unit).sum(axis=0))

    def evaluate(self, w: Vector, data: Records, *how: Any, **more: Any) -> dict[str, float]:
        return {"loss": float(np.mean((np.maximum(np.asarray(data.x) @ w, 0) - data.y) ** 2) / 2)}


def unit_gradients(w: Vector, x: Floats, y: Floats, clip: float | None) -> Floats:
    """Return one clipped row for each record; ``w`` is one model for all records or one for each."""
    out = np.maximum(np.sum(w * x, axis=-1), 0.0)
    gradients = ((out - y) * (out > 0))[:, None] * x
    if clip is None:
        return np.asarray(gradients)
    norms = np.linalg.norm(gradients, axis=1)
    return np.asarray(gradients / np.maximum(1.0, norms / clip)[:, None])


def literal_round(slots: int, present: npt.NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """Paper [alg:DP]: return U without noise for one round of many runs; ``present`` tells which runs have the record."""
    runs = len(present)
    w, total = np.tile(EDGE, (runs, 1)), np.zeros((runs, 2))
    y = np.full(runs, TARGET)
    for _ in range(slots):
        drawn = (rng.integers(0, RECORDS, runs) == 0) & present  # uniformly, with replacement; record 0 is the one
        x = np.stack([np.ones(runs), drawn.astype(float)], axis=1)
        g = unit_gradients(w, x, y, CLIP)
        total += g
        w -= ETA * g
    return total


def attack_literal(rounds: int, runs: int, seed: int) -> Attacked:
    """Attack the paper's client: the score is the largest -U_1 over the rounds, with and without the record."""
    terms, rng = schedule(rounds), stream(seed, Purpose.NOISE)
    scores = np.full(2 * runs, -np.inf)
    present = np.arange(2 * runs) >= runs
    for i in range(rounds):
        u = literal_round(terms.share(i, 0), present, rng) + rng.normal(0, CLIP * SIGMA, (2 * runs, 2))
        scores = np.maximum(scores, -u[:, 0])
    measured = Scores(scores[:runs], scores[runs:], ()).epsilon(1 - CONFIDENCE, DELTA)
    tight = account(_events(rounds), DELTA).epsilon
    return Attacked("paper, as printed", moved_literally(rounds), measured, CLAIMED, tight, runs)


def moved_literally(rounds: int) -> float:
    """Return |U with the record - U without| / C if it comes first in the middle round."""
    slots = schedule(rounds).share(rounds // 2, 0)
    w, total = EDGE.copy(), np.zeros(2)
    for h in range(slots):
        g = unit_gradients(w, np.array([[1.0, float(h == 0)]]), np.array([TARGET]), CLIP)[0]
        w, total = w - ETA * g, total + g
    return float(np.linalg.norm(total)) / CLIP


def _events(rounds: int) -> list[Any]:
    made = certify("minibatch", schedule(rounds), Unit(), clip=CLIP, sigma=SIGMA, records=(RECORDS,))
    return made.events(0)


def attack_ours(mechanism: str, rounds: int, runs: int, seed: int) -> Attacked:
    """Attack real workers: a broadcast puts every round at the edge; the score is the largest step along the attack."""
    objective, data, start = _unit_scene() if mechanism == "minibatch" else _logistic_scene()
    bound = None if mechanism == "minibatch" else float(np.linalg.norm(data.x, axis=1).max())
    certified = certify(
        mechanism, schedule(rounds), objective, clip=CLIP, sigma=SIGMA, records=(RECORDS,), norm_bound=bound
    )
    subject = Subject(certified, objective, 0, data.features, tuple(np.unique(data.y).tolist()), "float32", build)
    moved, along = _moved(subject, data, start, rounds // 2)
    scores = np.array([[_score(subject, data, start, along, n, seed + run) for run in range(runs)] for n in (1, 0)])
    measured = Scores(scores[0], scores[1], ()).epsilon(1 - CONFIDENCE, DELTA)
    tight = account(certified.events(0), DELTA).epsilon
    return Attacked(mechanism, moved, measured, tight, tight, runs)


def _unit_scene() -> tuple[Any, Records, Floats]:
    x = np.tile([1.0, 0.0], (RECORDS, 1))
    x[0] = 1.0
    return Unit(), as_records(x, np.full(RECORDS, TARGET)), EDGE.copy()


def _logistic_scene() -> tuple[Any, Records, Floats]:
    """Return equal records, except for the label of one, and the model at which their gradients begin to be clipped."""
    x, y = np.tile([3.0, 0.0], (RECORDS, 1)), np.ones(RECORDS)
    y[0] = -1.0
    p = CLIP / 3.0
    return Logistic(2, intercept=False), as_records(x, y), np.array([np.log((1 - p) / p) / 3.0, 0.0])


def _moved(subject: Subject, data: Records, start: Floats, i: int) -> tuple[float, Floats]:
    """Return the noise-free difference in round i if the record comes first in a round of the expected size."""
    slots, sent = subject.certificate.terms.share(i, 0), []
    for first in (1, 0):
        members = np.arange(first, slots)
        draw = Draw(members, members / RECORDS)
        sent.append(subject.without_noise().releases(data, np.arange(RECORDS), Script({i: draw}), (i,), (start,))[0])
    apart = sent[1] - sent[0]
    length = float(np.linalg.norm(apart))
    return length / subject.certificate.sensitivity(i, 0), apart / length


def _score(subject: Subject, data: Records, start: Floats, along: Floats, first: int, seed: int) -> float:
    """Run all rounds on the records from ``first`` on, and return the score."""
    worker = subject.make(subject, data, np.arange(first, RECORDS), SeededSource(2 * seed + first, 0), start)
    scale, largest = subject.scale(0), -np.inf
    for i in range(subject.certificate.terms.rounds):
        if i:
            worker.receive(Broadcast(start, i, Settled(i)))
        worker.run(subject.certificate.terms.share(i, 0))
        largest = max(largest, float(worker.finish().delta @ along) / scale)
    return largest


def run(rounds: int = 183, literal_runs: int = 8000, runs: int = 400, seed: int = 0) -> list[Attacked]:
    """Attack the paper's algorithm and both mechanisms."""
    return [
        attack_literal(rounds, literal_runs, seed),
        attack_ours("minibatch", rounds, runs, seed),
        attack_ours("local", rounds, runs, seed),
    ]


def picture(found: list[Attacked], path: Path) -> None:
    """Draw two bar charts: one record's effect on a release, and the measured epsilon against the claimed one."""
    from plotly.graph_objects import Bar, Figure
    from plotly.subplots import make_subplots

    names = [each.name for each in found]
    figure: Figure = make_subplots(1, 2, subplot_titles=("One record moves a release by", "epsilon"))
    figure.add_trace(Bar(x=names, y=[a.moved for a in found], name="times what is assumed", showlegend=False), 1, 1)
    figure.add_trace(Bar(x=names, y=[a.claimed for a in found], name="claimed: at most"), 1, 2)
    figure.add_trace(Bar(x=names, y=[a.measured for a in found], name="measured: at least"), 1, 2)
    figure.update_yaxes(type="log", title="times what is assumed", row=1, col=1)
    figure.update_layout(title="The drift attack (Example 3: sigma = 8, delta = 5.5e-8)", template="plotly_white")
    figure.write_html(path, include_plotlyjs=True)


def drawing(found: list[Attacked], path: Path) -> None:
    """Draw the second chart as an SVG file that needs no script."""
    top = max(max(a.claimed, a.measured) for a in found)
    bars = []
    for k, a in enumerate(found):
        for j, (value, colour, word) in enumerate(((a.claimed, "#888", "claimed"), (a.measured, "#c33", "measured"))):
            x, height = 60 + 180 * k + 70 * j, 220 * value / top
            bars.append(f'<rect x="{x}" y="{250 - height:.1f}" width="60" height="{height:.1f}" fill="{colour}"/>')
            bars.append(f'<text x="{x + 30}" y="{244 - height:.1f}" text-anchor="middle">{value:.2f}</text>')
            bars.append(f'<text x="{x + 30}" y="266" text-anchor="middle" font-size="11">{word}</text>')
        bars.append(f'<text x="{125 + 180 * k}" y="286" text-anchor="middle">{a.name}</text>')
    style = 'xmlns="http://www.w3.org/2000/svg" width="620" height="300" font-family="sans-serif" font-size="13"'
    path.write_text(f'<svg {style}><rect width="620" height="300" fill="white"/>{"".join(bars)}</svg>\n')


def main() -> None:
    parser = argparse.ArgumentParser(description="The drift attack on the paper's private client and on ours.")
    parser.add_argument("--runs", type=int, default=400, help="of our mechanisms, with the record and without")
    parser.add_argument("--literal-runs", type=int, default=8000, help="of the paper's algorithm")
    parser.add_argument("--rounds", type=int, default=183, help="of Example 3's 183")
    parser.add_argument("--out", type=Path, default=Path("runs/drift_attack"))
    options = parser.parse_args()
    found = run(options.rounds, options.literal_runs, options.runs)
    options.out.mkdir(parents=True, exist_ok=True)
    picture(found, options.out / "drift_attack.html")
    drawing(found, options.out / "drift_attack.svg")
    (options.out / "drift_attack.json").write_text(json.dumps([vars(each) for each in found], indent=1) + "\n")
    for a in found:
        verdict = "BROKEN" if a.measured > a.claimed else "holds"
        print(
            f"{a.name:18} one record moves a release by {a.moved:7.2f} of what is assumed; "
            f"epsilon claimed {a.claimed:.4f}, measured >= {a.measured:.4f} ({a.runs} runs): {verdict}"
        )
    print(f"plots: {options.out}/drift_attack.html and .svg")


if __name__ == "__main__":
    main()
