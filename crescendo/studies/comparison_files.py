"""What the page of a comparison tells: results, what can be told from them, what was equal, and how each was "
"tuned."""

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
    "Crescendo against each rival. Seeds are shared, so each statement rests on the 95% t-interval of what the two differ "
    "by, seed by seed; of twenty statements about equal algorithms one would be wrong. Seeds do not change the test part: "
    "whether other records would say the same is another question. Ratios are theirs over ours."
)


def write_comparison(found: Comparison, folder: Path, standalone: bool = False) -> None:
    """``comparison.csv``, then ``comparison.html``: who sees the page finds the rest complete."""
    page, table = PAGES
    write_text(folder / table, csv_of(found))
    write_text(folder / page, comparison_page(story_of_comparison(found), script_for(folder, standalone), made_now()))


def csv_of(found: Comparison) -> str:
    """A row for every run on the test part, and one for every trial on the validation part."""
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
    """What the page tells."""
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
    """The interval of a headline, behind its mean."""
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
    """The mean if every seed reached it, else in how many it was reached: a mean over those alone would flatter."""
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
        f"Gradients: {work} over all clients in every run. Round sizes are each algorithm's own; where nothing "
        "else was asked for, a rival "
        "takes as many local steps as make no more rounds than the run file has.",
        f"Records: one test part of {found.tested:,} records, cut or read once, for all runs; a seed decides who gets which "
        "training record, the same for every algorithm.",
        "Clock, network and first model: the run file's, drawn from the seed, the same for every algorithm.",
    ]
    if found.withheld is not None:
        said.append(
            "Budget: one for all, for which each algorithm has the noise that it would need. No epsilon is stated."
        )
    elif found.equal == "epsilon":
        said.append(
            "Epsilon and delta: stated for all; each algorithm has the least noise that keeps them over its own rounds."
        )
    elif found.equal == "noise":
        said.append("Noise: one sigma for all; each algorithm's own epsilon is in the table, and they differ.")
    if found.target is not None:
        way = f"{NEAR:.0%} of the way from {found.score.guessing} to the best mean at the end"
        how = "as asked for" if found.target_given else way
        said.append(
            f"Target {found.score.words}: {found.target:.4g}, {how}. It is read on the test part and chooses nothing."
        )
    else:
        said.append(
            f"Target {found.score.words}: none, as no algorithm beats {found.score.guessing}; --target sets one."
        )
    if not found.trials:
        said.append(
            "Tuning: none. Every algorithm has the run file's step sizes, and at one step size algorithms cannot be compared: "
            "a mean of updates moves the model less than their sum, for example. --tune N gives all the same number of trials."
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
