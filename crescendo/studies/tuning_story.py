"""The sections on tuning and privacy of a comparison's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crescendo.privacy.guarantee import REMINDER
from crescendo.report.figures.study_figures import StudyLine
from crescendo.report.numbers import number
from crescendo.report.study_story import Listing
from crescendo.runs.added_runs import StudyTotal
from crescendo.studies.comparing import Comparison
from crescendo.studies.points import withheld_of
from crescendo.studies.tuning import SHARE, STEP, Tuned


def tuning_of(found: Comparison) -> Listing:
    """Return a table with a row for each algorithm."""
    head = ["algorithm", "trials", "ended well", "searched", "chosen", f"validation {found.score.words}"]
    private = found.equal != "gradients"
    rows = []
    for one in found.contestants:
        tuned = one.tuned
        assert tuned is not None
        best = tuned.best.outcome.score if tuned.best is not None else None
        row = [
            one.name,
            f"{len(tuned.trials)}",
            f"{sum(trial.outcome.status == 'done' for trial in tuned.trials)}",
            ", ".join(name for name in tuned.trials[0].options if name not in one.fixed) or "nothing",
            _words(one.options) if tuned.best is not None else "nothing: its defaults were run",
            number(best),
        ]
        rows.append([*row, _spent(tuned)] if private else row)
    return Listing([*head, *(["epsilon of the trials"] if private else [])], rows, [1, 2, 5, 6])


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_plain(value)}" for name, value in options.items()) or "its defaults"


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def _spent(tuned: Tuned) -> str:
    """Return the epsilon of the trials that began; a trial that could not start released nothing."""
    if withheld_of(trial.outcome for trial in tuned.trials) is not None:
        return "withheld"
    total = StudyTotal.of(trial.outcome.privacy for trial in tuned.trials)
    return "nothing" if total is None else f"{total.epsilon:.4g}"


def tuning_notes(found: Comparison) -> list[str]:
    """Describe the search that every algorithm was given, and its doubtful results."""
    said = [
        f"Every algorithm, our own included, had {found.trials} trials with the same {found.trials} factors of "
        "the step size. One factor is 1, and the trial with it keeps the algorithm's defaults. The other factors are "
        "spread evenly over the range on a logarithmic scale, and each algorithm's own options are drawn with them. "
        f"A trial is a whole run on {1 - SHARE:.0%} of the training records, with a seed that no run above has; its "
        f"model is scored on the {SHARE:.0%} held out. The tuner never sees the test part."
    ]
    for one in found.contestants:
        if one.fixed:
            said.append(f"Options of {one.name} that were fixed and not searched: {_words(one.fixed)}.")
        if one.tuned is not None and one.tuned.best is None:
            said.append(f"No trial of {one.name} ended well: its results use its defaults.")
        if one.tuned is not None and one.tuned.at_edge:
            said.append(f"{one.tuned.doubt(one.name)}.")
    return said


def trials_of(found: Comparison) -> list[StudyLine]:
    """Return the score on the validation part by step size factor, one line per algorithm."""
    lines = []
    for one in found.contestants:
        trials = one.tuned.trials if one.tuned is not None else ()
        if all(STEP in trial.options for trial in trials):
            ended = [trial.outcome.score if trial.outcome.status == "done" else None for trial in trials]
            lines.append(StudyLine(one.name, [trial.options[STEP] for trial in trials], ended))
    return lines


def privacy_notes(found: Comparison) -> list[str]:
    """Explain the coverage of each epsilon, and the extra cost of tuning on private records."""
    if found.withheld is not None:
        return [f"{found.withheld[:1].upper()}{found.withheld[1:]}."]
    delta = found.config.privacy.delta
    said = [
        f"Each epsilon is that of one run, at delta {delta:g}, for the client that spends most. Seeds repeat a "
        "run for statistics; with real noise each repeat spends again."
    ]
    if (total := found.total) is not None:
        says = total.sentence()
        said.append(f"{says[:1].upper()}{says[1:]}.")
    if found.trials and delta is not None:
        said.append(
            f"Tuning on private records is not free: the {found.trials} trials of an algorithm read the same "
            "records. By basic composition "
            f"their epsilons add up to those in the table of trials, at a delta of {found.trials * delta:g}; "
            "the run itself comes on top. "
            "The tuner compares trials on the validation records without noise: no epsilon here covers that choice."
        )
    return [*said, f"{REMINDER[1][:1].upper()}{REMINDER[1][1:]}."]
