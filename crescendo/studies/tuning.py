"""Tuning: the same number of trials for every algorithm, scored on records held out of the training part.

The tuner refuses a data set with a test part, so its choice cannot rest on test records. All trials share one seed,
which no run of the comparison uses. The search is stratified: it divides the range of an option into as many parts as
there are trials, and each trial draws from a different part. All algorithms get the same factors of the step size.
The middle trial is the unchanged run file with the algorithm's defaults, so tuning never does worse on the validation
part than no tuning.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.algorithms.algorithm_kinds import Algorithm
from crescendo.config.schema import Config
from crescendo.core.random import Purpose, stream
from crescendo.data import Dataset
from crescendo.errors import UsageError
from crescendo.studies.point_store import PointStore
from crescendo.studies.points import NOTHING, InMemory, Outcome, StudyPoint
from crescendo.studies.study_events import Listener, run_all, unheard

STEP = "step_scale"  # an option of every algorithm
SHARE = 0.2  # of the training records, for the validation part
FEW = 4  # trials: fewer leave large gaps in the range
_CUT = 3  # as the round of the stream: 0 is the split over clients, 1 the test part, 2 the synthetic draw
_FAR = 2**40  # away from the seeds of the comparison


@dataclass(frozen=True, eq=False)
class Trial:
    """A set of options and its outcome on the validation part."""

    options: Mapping[str, Any]
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class Tuned:
    """The trials of one algorithm by rising step size; ``best`` is None if no trial ended well."""

    trials: tuple[Trial, ...]
    best: Trial | None

    @property
    def at_edge(self) -> str:
        """ "smallest" or "largest" if the best step size is the first or last one tried: a better one may lie beyond."""
        tried = [float(trial.options[STEP]) for trial in self.trials if STEP in trial.options]
        if self.best is None or len(tried) < 2:
            return ""
        chosen = self.best.options[STEP]
        return "smallest" if chosen == min(tried) else "largest" if chosen == max(tried) else ""

    def doubt(self, name: str) -> str:
        """Return the warning about a choice at the edge of the range."""
        beyond = f"The best step size of {name} is the {self.at_edge} that was tried: a better one may lie beyond"
        return f"{beyond}, and {len(self.trials)} trials are few" if len(self.trials) < FEW else beyond


def validation_cut(data: Dataset, seed: int, rule: str = "iid") -> Dataset:
    """Return the training records only, a share of them held out as the part to score on.

    If ``rule`` splits the records by a column, the same share of each value's records is held out, so that no client
    is empty.
    """
    if data.test is not None:
        raise UsageError("tuning takes training records only; leave the test part out")
    rows = len(data.train)
    order = stream(seed, Purpose.SPLIT, round=_CUT).permutation(rows)
    owners = data.columns[rule.removeprefix("column:")] if rule.startswith("column:") else np.zeros(rows)
    held = np.zeros(rows, dtype=np.bool_)
    for owner in np.unique(owners):
        mine = order[owners[order] == owner]
        held[mine[: int(SHARE * len(mine))]] = True
    if not held.any():
        raise UsageError(f"{data.name} has too few training records to cut a validation part from; leave --tune out")
    columns = {name: column[~held] for name, column in data.columns.items()}
    return replace(data, train=data.train.take(~held), test=data.train.take(held), columns=columns, optimum=None)


def tried_options(algorithm: Algorithm, count: int, seed: int, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of every trial, by rising step size; fixed options keep their values.

    >>> from crescendo.algorithms.algorithm_kinds import ALGORITHMS
    >>> a, b = (tried_options(ALGORITHMS[name], 3, 0, {}) for name in ("crescendo", "fedprox"))
    >>> [one["step_scale"] for one in a] == [one["step_scale"] for one in b]
    True
    >>> sorted(b[0]), b[1]
    (['mu', 'step_scale'], {'step_scale': 1.0, 'mu': 0.1})
    """
    found: list[dict[str, Any]] = [dict(fixed) for _ in range(count)]
    for name, search in algorithm.tunable.items():
        if name in fixed:
            continue
        rng = stream(seed, Purpose.TUNING, client=zlib.crc32(name.encode()))
        parts = (np.arange(count) + rng.random(count)) / count
        for one, part in zip(found, parts if name == STEP else rng.permutation(parts), strict=True):
            one[name] = search.at(float(part))
    if count:
        untuned = algorithm.made(fixed)  # a factor of 1 is half-way up its range
        found[count // 2] = {name: getattr(untuned, name) for name in found[0]}
    return found


def trial_points(
    algorithm: Algorithm,
    config: Config,
    data: Dataset,
    count: int,
    fixed: Mapping[str, Any],
    memory: InMemory = NOTHING,
) -> list[StudyPoint]:
    """Return the runs that tune one algorithm; ``data`` has no test part."""
    base = config.run.seed
    run = config.run.model_copy(update={"seed": (base + _FAR) % 2**63})
    seeded = config.model_copy(update={"run": run})
    cut = validation_cut(data, base, config.clients.split)
    part = f"validation of seed {base}{memory.mark}"
    return [
        StudyPoint(f"{algorithm.name} trial {number}", seeded, algorithm.name, options, cut, part, memory.objective)
        for number, options in enumerate(tried_options(algorithm, count, base, fixed), 1)
    ]


def tune(points: Sequence[StudyPoint], store: PointStore, tell: Listener = unheard) -> Tuned:
    """Run the trials of one algorithm. The best has the highest score; ties go to the lowest training loss."""
    outcomes = run_all(points, store, tell)
    trials = tuple(Trial(dict(point.options), outcome) for point, outcome in zip(points, outcomes, strict=True))
    ended = [trial for trial in trials if trial.outcome.status == "done" and trial.outcome.score is not None]
    return Tuned(trials, max(ended, key=_score, default=None))


def _score(trial: Trial) -> tuple[float, float]:
    score, loss = trial.outcome.score, trial.outcome.loss
    assert score is not None and loss is not None
    return score, -loss
