"""A contest: every entrant is tuned with the same number of trials on a part of the training records, then run on the test part.

Two entrants differ if Student's 95% interval of their differences, seed by seed, does not contain 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crescendo.algorithms.algorithm_kinds import OURS, algorithm
from crescendo.data import Dataset
from crescendo.errors import Diverged, Refused
from crescendo.runs.result import Result
from crescendo.runs.simulate import simulate
from crescendo.studies.intervals import Interval
from crescendo.studies.tuning import tried_options, validation_cut
from lab.experiments.training import dataset, rounded
from lab.pipeline.experiment import TRIAL_SEED
from lab.pipeline.summaries import short

NOT_SIGNIFICANT = "not significant"
Score = Callable[[Result], float]


@dataclass(frozen=True)
class Entrant:
    """An algorithm, with one run file for each value of a setting tuned beside its options, such as the first size."""

    configs: Sequence[Mapping[str, Any]]
    algorithm: str = OURS
    fixed: Sequence[Mapping[str, Any]] = field(default=({},))  # fixed options, one set for each run file or one for all

    def trials(self, count: int) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Return run files with options, the same number of trials for every run file."""
        each = count // len(self.configs)
        found = []
        for j, config in enumerate(self.configs):
            given = self.fixed[j % len(self.fixed)]
            found += [(config, options) for options in tried_options(algorithm(self.algorithm), each, 0, given)]
        return found


def entered(
    source: str, entrant: Entrant, trials: int, seeds: Sequence[int], score: Score
) -> tuple[int, list[Result | None]]:
    """Return the index of the run file that scored best in the trials, and the final runs with it; None for one that diverged."""
    data = dataset(source)
    cut = validation_cut(replace(data, test=None), 0)
    tried = entrant.trials(trials)
    scores = [_scored(_run(cut, entrant, config, options, TRIAL_SEED), score) for config, options in tried]
    config, options = tried[scores.index(max(scores))]
    place = next(j for j, one in enumerate(entrant.configs) if one is config)
    return place, [_run(data, entrant, config, options, seed) for seed in seeds]


def _scored(result: Result | None, score: Score) -> float:
    return float("-inf") if result is None else score(result)


def _run(
    data: Dataset, entrant: Entrant, config: Mapping[str, Any], options: Mapping[str, Any], seed: int
) -> Result | None:
    try:
        return simulate(
            {**config, "run": {"seed": seed}}, data=data, algorithm=entrant.algorithm, options=options, cores=1
        )
    except (Diverged, Refused):  # no certificate covers this step size: a failed trial
        return None


def chosen(results: Sequence[Result | None]) -> dict[str, Any]:
    """Return the tuned options, of the first final run."""
    found = next((one for one in results if one is not None), None)
    if found is None:
        return {}
    options = vars(found.prepared.options)
    return {name: rounded(value) if isinstance(value, float) else value for name, value in options.items()}


def difference(ours: Sequence[float | None], theirs: Sequence[float | None]) -> tuple[str, str]:
    """Return the mean of our scores less theirs, seed by seed, with an interval, and whether it is significant.

    >>> difference([0.5, 0.6], [0.4, 0.5])
    ('+0.1000 (+0.1000 to +0.1000)', 'higher')
    >>> difference([0.5, 0.6], [0.6, 0.5]), difference([None], [0.1])
    (('0.0000 (-1.2706 to +1.2706)', 'not significant'), ('broke off', 'broke off'))
    """
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    if len(pairs) < max(1, len(ours)):
        return "broke off", "broke off"
    found = Interval.of([round(a - b, 9) for a, b in pairs])
    if found.low is None or found.high is None:
        return signed(found.mean), NOT_SIGNIFICANT
    words = "higher" if found.low > 0 else "lower" if found.high < 0 else NOT_SIGNIFICANT
    return f"{signed(found.mean)} ({signed(found.low)} to {signed(found.high)})", words


def signed(value: float) -> str:
    """
    >>> signed(0.25), signed(-0.25), signed(-0.0)
    ('+0.2500', '-0.2500', '0.0000')
    """
    text = short(abs(value))
    return text if float(text) == 0 else f"{'+' if value > 0 else '-'}{text}"
