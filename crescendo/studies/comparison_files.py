"""The page and the CSV of a comparison: results, statements, equal conditions, and tuning."""

from __future__ import annotations

from pathlib import Path, PurePath

from crescendo.report.dates import made_now
from crescendo.report.figures.study_figures import StudyLine
from crescendo.report.numbers import number, size
from crescendo.report.rendering import script_for
from crescendo.report.story import split_in_words, without_folders
from crescendo.report.study_page import comparison_page
from crescendo.report.study_story import ComparisonStory, Listing
from crescendo.studies.comparing import NEAR, PAGES, Comparison
from crescendo.studies.contestants import Contestant, course
from crescendo.studies.intervals import Interval, mean_of
from crescendo.studies.study_files import MEASURES, at_most, bounded, csv_text, measures_of, shown_sigma, write_text
from crescendo.studies.tuning_story import privacy_notes, trials_of, tuning_notes, tuning_of
from crescendo.studies.verdicts import listed, summary

_HEAD = ("algorithm", "part", "seed", "options", *MEASURES, "seconds_to_target", "bytes_to_target")
_EVERY_STATEMENT = (
    "Crescendo against each rival. The algorithms share seeds, so each statement rests on the 95% t-interval of the paired "
    "differences; of twenty statements about equal algorithms, about one would be wrong. Seeds do not change the test part, "
    "so the intervals do not cover the choice of test records. Ratios are theirs over ours."
)


def write_comparison(found: Comparison, folder: Path, standalone: bool = False) -> None:
    """Write ``comparison.csv``, then ``comparison.html``: when the page exists, the table is complete."""
    page, table = PAGES
    write_text(folder / table, csv_of(found))
    write_text(folder / page, comparison_page(story_of_comparison(found), script_for(folder, standalone), made_now()))


def csv_of(found: Comparison) -> str:
    """Return a CSV with a row for every run on the test part and for every trial on the validation part."""
    rows = []
    for one in found.contestants:
        for seed, outcome in zip(found.seeds, one.outcomes, strict=True):
            to_target: tuple[float | None, float | None] = (None, None)
            if found.target is not None:
                to_target = (outcome.reached(found.target, "seconds"), outcome.reached(found.target, "bytes"))
            rows.append([one.name, "test", seed, dict(one.options), *measures_of(outcome), *to_target])
        for trial in one.tuned.trials if one.tuned is not None else ():
            rows.append([one.name, "validation", None, dict(trial.options), *measures_of(trial.outcome), None, None])
    return csv_text(_HEAD, rows)


def story_of_comparison(found: Comparison) -> ComparisonStory:
    """Collect the content of the page."""
    verdicts = found.verdicts()
    tuned = found.ours.tuned is not None
    return ComparisonStory(
        title=f"{PurePath(found.name).name}: {listed([one.name for one in found.contestants])}",
        subtitle=_subtitle(found),
        headline=_headline(found),
        says=summary(verdicts, found.ours.name, len(found.seeds), found.score),
        verdicts=Listing(
            ["against", found.score.words, f"virtual time {_to_target(found)}", f"bytes {_to_target(found)}"],
            [[one.rival, one.score.says, one.seconds.says, one.bytes.says] for one in verdicts],
        ),
        verdict_note=_EVERY_STATEMENT,
        curves=_curves(found),
        results=_results(found),
        equal=_equal(found),
        runs=_runs(found),
        troubles=at_most(_troubles(found)),
        config=found.said + without_folders(found.config.to_toml()),
        measure=found.score.words,
        least=found.score.low,
        tuning=tuning_of(found) if tuned else None,
        tuning_notes=tuning_notes(found) if tuned else [],
        trials=trials_of(found) if tuned else [],
        privacy_notes=privacy_notes(found) if found.equal != "gradients" else [],
        levels=[] if found.guess is None else [(found.score.guess, found.guess)],
    )


def _subtitle(found: Comparison) -> str:
    config, seeds = found.config, found.seeds
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    how = split_in_words(config.clients.split)
    return f"{found.records:,} training records, {how}, {config.timing.preset} timing, {which}"


def _to_target(found: Comparison) -> str:
    return "" if found.target is None else f"to {found.score.words} {found.target:.4g}"


def _headline(found: Comparison) -> list[tuple[str, str, str]]:
    cards = []
    for one in found.contestants:
        mean = one.mean("score")
        wrong = len(one.outcomes) - one.count("done")
        half = "" if mean is None else _half(mean)
        means = (
            f"{half}{wrong} of {len(one.outcomes)} went wrong"
            if wrong
            else f"{half}{found.score.words} on the test part"
        )
        cards.append((one.name, number(None if mean is None else mean.mean), means))
    return cards


def _half(mean: Interval) -> str:
    """Format the interval that follows a mean in a headline."""
    if mean.low is None or mean.high is None:
        return f"{mean.lacks.strip(' ()')}; " if mean.lacks else ""
    return f"{mean.low:.4f} to {mean.high:.4f}; " if mean.skew else f"± {(mean.high - mean.low) / 2:.4f}; "


def _curves(found: Comparison) -> dict[str, list[StudyLine]]:
    curves = {}
    for measure in ("seconds", "gradients", "bytes"):
        lines = []
        for one in found.contestants:
            x, means = course(one.outcomes, measure)
            bounds = any(mean is not None and mean.low is not None for mean in means)
            lines.append(
                StudyLine(
                    one.name,
                    x,
                    [None if mean is None else mean.mean for mean in means],
                    [None if mean is None else mean.low for mean in means] if bounds else (),
                    [None if mean is None else mean.high for mean in means] if bounds else (),
                )
            )
        curves[measure] = lines
    return curves


def _results(found: Comparison) -> Listing:
    head = ["algorithm", found.score.words, "rounds", "bytes", "virtual seconds"]
    if found.target is not None:
        head += [f"seconds {_to_target(found)}", f"bytes {_to_target(found)}"]
    if found.equal != "gradients":
        head += ["epsilon", "sigma"]
    rows = []
    for one in found.contestants:
        row = [
            one.name,
            bounded(one.mean("score")),
            bounded(one.mean("rounds"), "{:,.6g}".format),
            bounded(one.mean("bytes"), size),
            bounded(one.mean("virtual_seconds"), "{:,.0f}".format),
        ]
        if found.target is not None:
            row += [_reached(one, found.target, "seconds"), _reached(one, found.target, "bytes")]
        if found.equal != "gradients":
            row += [_epsilon(one), shown_sigma(one.sigma)]
        rows.append(row)
    return Listing(head, rows, range(1, len(head)))


def _epsilon(one: Contestant) -> str:
    return number(one.epsilon, ".4g") if one.epsilon is not None else "withheld" if one.sigma is not None else "none"


def _reached(one: Contestant, target: float, measure: str) -> str:
    """Format the mean if every seed reached the target, otherwise the count that did: a mean over those would flatter."""
    values = one.reached(target, measure)
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return f"reached in {len(known)} of {len(values)}"
    return bounded(mean_of(known), size if measure == "bytes" else "{:,.0f}".format)


def _equal(found: Comparison) -> list[str]:
    gradients = {int(value) for one in found.contestants for value in one.values("gradients") if value is not None}
    work = (
        f"{min(gradients):,}"
        if len(gradients) == 1
        else f"{min(gradients, default=0):,} to {max(gradients, default=0):,}"
    )
    said = [
        f"Gradients: {work} over all clients in every run. Each algorithm has its own round sizes; by default a rival "
        "takes enough local steps to need no more rounds than the run file has.",
        f"Records: all runs share one test part of {found.tested:,} records; each seed distributes the training records over "
        "the clients, in the same way for every algorithm.",
        "Clock, network and first model: as in the run file, drawn from the seed, the same for every algorithm.",
    ]
    if found.withheld is not None:
        said.append(
            "Budget: the same for all; each algorithm has the noise that this budget would need. No epsilon is stated."
        )
    elif found.equal == "epsilon":
        said.append(
            "Epsilon and delta: the same for all; each algorithm has the least noise that meets them over its own rounds."
        )
    elif found.equal == "noise":
        said.append("Noise: one sigma for all; the table has each algorithm's epsilon, and they differ.")
    if found.target is not None:
        way = f"{NEAR:.0%} of the way from {found.score.guessing} to the best mean at the end"
        how = "as requested" if found.target_given else way
        said.append(
            f"Target {found.score.words}: {found.target:.4g}, {how}. It is measured on the test part and decides nothing."
        )
    else:
        said.append(
            f"Target {found.score.words}: none, because no algorithm beats {found.score.guessing}; set one with --target."
        )
    if not found.trials:
        said.append(
            "Tuning: none. Every algorithm uses the run file's step sizes, and algorithms cannot be compared at one step size: "
            "for example, a mean of updates moves the model less than their sum. --tune N gives each the same number of trials."
        )
    return said


def _runs(found: Comparison) -> Listing:
    rows = []
    for one in found.contestants:
        for seed, run in zip(found.seeds, one.outcomes, strict=True):
            seconds = "none" if run.virtual_seconds is None else f"{run.virtual_seconds:,.6g}"
            rounds = f"{run.counts['rounds']:,}" if run.counts else "none"
            rows.append([one.name, f"{seed}", run.status, number(run.score), number(run.loss), rounds, seconds])
    return Listing(
        ["algorithm", "seed", "status", found.score.words, "loss", "rounds", "virtual seconds"], rows, [1, 3, 4, 5, 6]
    )


def _troubles(found: Comparison) -> list[str]:
    return [
        f"{one.name}, seed {seed}: {run.status}: {run.says}"
        for one in found.contestants
        for seed, run in zip(found.seeds, one.outcomes, strict=True)
        if run.status != "done"
    ]
