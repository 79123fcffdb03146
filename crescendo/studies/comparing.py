"""The `compare` call: our algorithm against rivals, on the same records, clock, network, gradients and seeds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from crescendo.algorithms.algorithm_kinds import ALGORITHMS, OURS, algorithm
from crescendo.config.loading import read, toml_value
from crescendo.config.schema import Config
from crescendo.data import Dataset, Records
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives.score import ACCURACY, Score, score_of
from crescendo.runs.added_runs import StudyTotal
from crescendo.runs.prepare import load_data
from crescendo.studies.contestants import Contestant
from crescendo.studies.equal_privacy import Equal, equalised
from crescendo.studies.grid import check_texts
from crescendo.studies.point_store import PointStore, opened
from crescendo.studies.points import NOTHING, InMemory, Outcome, StudyPoint, withheld_of
from crescendo.studies.study_events import Listener, counted, run_all, unheard
from crescendo.studies.tuning import Tuned, trial_points, tune
from crescendo.studies.verdicts import RivalVerdict, verdict
from crescendo.studies.views import comparison_view
from crescendo.tables import show

MOST_SEEDS = MOST_TRIALS = 1000
NEAR = 0.95  # of the way from the best constant answer to the best score: the target, unless one is given
PAGES = ("comparison.html", "comparison.csv")
_Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The results of a comparison.

    ``contestants`` starts with our own algorithm. ``equal`` names the quantity held equal in addition to the gradients.
    """

    name: str
    config: Config
    records: int  # to train on
    tested: int  # records of the test part
    seeds: tuple[int, ...]
    trials: int
    equal: Equal
    contestants: tuple[Contestant, ...]
    target: float | None
    target_given: bool
    out: Path | None = None
    guess: float | None = None  # the score of the best constant answer on the test part
    score: Score = ACCURACY
    said: str = ""  # comment lines above the run file that name its missing inputs

    @property
    def ours(self) -> Contestant:
        return self.contestants[0]

    @property
    def rivals(self) -> tuple[Contestant, ...]:
        return self.contestants[1:]

    def __repr__(self) -> str:
        return comparison_view.in_a_line(self)

    def _repr_html_(self) -> str:
        return comparison_view.as_html(self)

    def summary(self) -> str:
        """Return one line for each algorithm and each statement."""
        return comparison_view.summary(self)

    def plot(self, against: str = "gradients") -> Any:
        """Plot the mean score over seeds with plotly, one line per algorithm, against gradients, seconds or bytes."""
        return comparison_view.plot(self, against)

    @property
    def total(self) -> StudyTotal | None:
        """The privacy cost of all private runs together, tuning trials included; None if no run was private."""
        trials = [
            trial.outcome.privacy for one in self.contestants if one.tuned is not None for trial in one.tuned.trials
        ]
        return StudyTotal.of([*trials, *(outcome.privacy for one in self.contestants for outcome in one.outcomes)])

    @property
    def withheld(self) -> str | None:
        """Why no epsilon is stated, if a look at the records chose the privacy terms."""
        return withheld_of(outcome for one in self.contestants for outcome in one.outcomes)

    def verdicts(self) -> list[RivalVerdict]:
        return [verdict(self.ours, rival, self.target, self.tested, self.score) for rival in self.rivals]

    def as_json(self) -> dict[str, Any]:
        return {
            "seeds": list(self.seeds),
            "equal": self.equal,
            "measure": self.score.name,
            "target": self.target,
            "algorithms": {one.name: self._told(one) for one in self.contestants},
            "privacy_total": None if (total := self.total) is None else total.to_json(),
            "verdicts": [one.to_json() for one in self.verdicts()],
            "out": None if self.out is None else str(self.out),
            **({} if self.withheld is None else {"withheld": self.withheld}),
        }

    def _told(self, one: Contestant) -> dict[str, Any]:
        measures = (self.score.name, "loss", "rounds", "bytes", "virtual_seconds")
        means = {name: one.mean(name) for name in measures}
        reached = {
            f"{name}_to_target": one.reached(self.target, name)
            for name in ("seconds", "bytes")
            if self.target is not None
        }
        return {
            "options": dict(one.options),
            **{name: None if mean is None else mean.to_json() for name, mean in means.items()},
            **reached,
            "epsilon": one.epsilon,
            "sigma": one.sigma,
            "status": [outcome.status for outcome in one.outcomes],
            "says": [outcome.says for outcome in one.outcomes if outcome.says],
            "trials": None if one.tuned is None else len(one.tuned.trials),
        }


def compare(
    config: Config | Path | str | Mapping[str, Any],
    rivals: Sequence[str],
    *,
    seeds: int = 5,
    tune: int = 0,
    target: float | None = None,
    equal: str | None = None,
    options: _Options | None = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    memory: InMemory = NOTHING,
) -> Comparison:
    """Run a config with our own algorithm and with each of ``rivals``, once per seed, and compare the results.

    ``tune`` first gives every algorithm that many trials on a part of the training records. ``target`` is a score to
    reach: an accuracy, or an R² for regression. ``equal`` ("epsilon" or "noise") is the quantity that a private
    comparison holds equal. ``options`` fixes options by algorithm. Every run uses the records and the test part of the
    run file's own seed; further seeds change everything random after that. With ``out``, the folder gets a file for
    every finished run, then ``comparison.csv`` and ``comparison.html``; repeating the call resumes where it stopped.
    ``memory`` replaces the records and the model that the config names; `crescendo.compare` accepts them directly.
    """
    _check(rivals, seeds, tune)
    memory.check_out(out)
    names, given = [OURS, *rivals], _given_options(options or {}, [OURS, *rivals])
    checked, same = equalised(read(config, overrides), equal, memory)
    score = score_of(checked.objective.kind)
    _check_target(target, score)
    for name in names:
        algorithm(name).check(blocks=checked.schedule.blocks, mechanism=checked.privacy.mechanism)
    every = [checked.model_copy(update={"run": _seeded(checked, seed)}) for seed in range(seeds)]
    folder = Path(out) if out is not None else None
    tell = counted(tell, len(names) * (tune + seeds))
    with opened(folder, "comparison", PAGES, keeps=memory.objective is None) as store:
        data, test = _with_test(checked, memory.data)
        tuned = _tune_all(names, checked, data, tune, given, store, tell, memory) if tune else {}
        chosen = {name: _chosen(given[name], tuned.get(name)) for name in names}
        contestants = _run_all(names, every, data, chosen, store, tell, memory)
        contestants = tuple(replace(one, fixed=given[one.name], tuned=tuned.get(one.name)) for one in contestants)
        found = Comparison(
            data.name,
            checked,
            len(data.train),
            len(test),
            tuple(one.run.seed for one in every),
            tune,
            same,
            contestants,
            target if target is not None else _usual_target(contestants, score.of_guessing(test)),
            target is not None,
            folder,
            score.of_guessing(test),
            score,
            memory.said,
        )
        if folder is not None:
            from crescendo.studies.comparison_files import write_comparison

            write_comparison(found, folder, standalone)
    return found


def _check(rivals: Sequence[str], seeds: int, trials: int) -> None:
    known = ", ".join(name for name in ALGORITHMS if name != OURS)
    if isinstance(rivals, str):  # a string is a sequence of strings too
        raise UsageError(f"rivals must be a list, here {json.dumps(rivals.split(','))}, not a string")
    check_texts(() if rivals is None else rivals, 'rivals must be a list of names, such as ["fedavg"]')
    if not rivals:
        raise ConfigError(f"a comparison needs a rival; name one or more with --with, of {known}")
    for name, times in Counter(rivals).items():
        if isinstance(name, str) and name not in ALGORITHMS and not get_close_matches(name, ALGORITHMS, 1):
            raise ConfigError(f'there is no algorithm "{name:.60}"; choose one of {known}')
        algorithm(name)
        if name == OURS:
            raise ConfigError(f"{OURS} is always compared; name rivals only, of {known}")
        if times > 1:
            raise ConfigError(f"--with has {name} twice; name each rival once")
    if type(seeds) is not int or not 1 <= seeds <= MOST_SEEDS:
        raise ConfigError(f"--seeds must be a whole number from 1 to {MOST_SEEDS}, not {show(seeds)}")
    if type(trials) is not int or not 0 <= trials <= MOST_TRIALS:
        raise ConfigError(f"--tune must be a whole number from 0 to {MOST_TRIALS}, not {show(trials)}")


def _check_target(target: float | None, score: Score) -> None:
    if target is not None and not (isinstance(target, int | float) and 0 < target <= 1):
        raise ConfigError(f"--target must be {score.target} above 0 and up to 1, not {show(target)}")


def parsed_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse the ``--option`` values of a command line.

    >>> parsed_options(["fedavg.rate=0.5", "fedavg.local_steps=10"])
    {'fedavg': {'rate': 0.5, 'local_steps': 10}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name, dot, option = (part.strip() for part in key.partition("."))
        if not (name and dot and option and equals and value.strip()):
            raise ConfigError(
                f"--option {text} is not of the form name.key=value; write, for example, --option fedavg.rate=0.5"
            )
        found.setdefault(name, {})[option] = toml_value(value.strip(), f"--option {text}")
    return found


def _given_options(options: _Options, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options that the caller fixes for each algorithm; raise ConfigError for an invalid option."""
    if not isinstance(options, Mapping) or not all(isinstance(one, Mapping) for one in options.values()):
        raise UsageError(
            f'options must map algorithms to options, such as {{"fedavg": {{"rate": 0.5}}}}, not {show(options)}'
        )
    for name in options:
        if name not in names:
            algorithm(name)
            raise ConfigError(
                f"--option {name}.KEY is for {name}, which is not compared; add {name} to --with, or leave that --option out"
            )
    found = {name: dict(options.get(name, {})) for name in names}
    for name, given in found.items():
        algorithm(name).made(given)
    return found


def _seeded(config: Config, more: int) -> Any:
    seed = config.run.seed + more
    if seed >= 2**63:
        raise ConfigError(f"run.seed = {config.run.seed} leaves no room for {more + 1} seeds; make it smaller")
    return config.run.model_copy(update={"seed": seed})


def _with_test(config: Config, given: Dataset | None) -> tuple[Dataset, Records]:
    """Return the data set and its test part."""
    data = load_data(config) if given is None else given
    if data.test is None or not len(data.test):
        raise ConfigError(f"{data.name} has no test part to compare on; set data.test above 0")
    return data, data.test


def _tune_all(
    names: Sequence[str],
    config: Config,
    data: Dataset,
    trials: int,
    given: Mapping[str, Mapping[str, Any]],
    store: PointStore,
    tell: Listener,
    memory: InMemory,
) -> dict[str, Tuned]:
    training = replace(data, test=None)  # the tuner never sees the test part
    found = {}
    for name in names:
        found[name] = tune(trial_points(algorithm(name), config, training, trials, given[name], memory), store, tell)
        if name == OURS:
            _refuse_failed([trial.outcome for trial in found[name].trials])
    return found


def _refuse_failed(outcomes: Sequence[Outcome]) -> None:
    """Raise if none of our own runs could start: there is then nothing to compare with."""
    if all(one.status == "failed" for one in outcomes):
        raise UsageError(outcomes[0].says)


def _chosen(given: Mapping[str, Any], tuned: Tuned | None) -> dict[str, Any]:
    return dict(given) if tuned is None or tuned.best is None else dict(tuned.best.options)


def _run_all(
    names: Sequence[str],
    every: Sequence[Config],
    data: Dataset,
    chosen: Mapping[str, Mapping[str, Any]],
    store: PointStore,
    tell: Listener,
    memory: InMemory,
) -> tuple[Contestant, ...]:
    """Run every algorithm seed by seed, so that an interrupted comparison has whole seeds.

    The first run is ours: if it cannot start, nothing can be compared.
    """
    part = f"records of seed {every[0].run.seed}{memory.mark}"
    points = [
        StudyPoint(f"{name} seed {config.run.seed}", config, name, chosen[name], data, part, memory.objective)
        for config in every
        for name in names
    ]
    outcomes = run_all(points[:1], store, tell)
    _refuse_failed(outcomes)
    if outcomes[0].status == "done" and outcomes[0].score is None:
        raise UsageError(
            f"this run measures no {points[0].score.words}, and a comparison needs it; {points[0].score.remedy}"
        )
    outcomes += run_all(points[1:], store, tell)
    return tuple(
        Contestant(name, ALGORITHMS[name].about, chosen[name], tuple(outcomes[place :: len(names)]))
        for place, name in enumerate(names)
    )


def _usual_target(contestants: Sequence[Contestant], guess: float) -> float | None:
    """Return a score most of the way from the best constant answer to the best final mean; None if no mean is better."""
    means = [mean.mean for one in contestants if (mean := one.mean("score")) is not None]
    best = max(means, default=guess)
    return round(guess + NEAR * (best - guess), 4) if best > guess else None
