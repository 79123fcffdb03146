"""The page and the CSV of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from crescendo.objectives.score import ACCURACY
from crescendo.report.dates import made_now
from crescendo.report.figures.study_figures import MOST_LINES, StudyLine
from crescendo.report.numbers import level, number, size
from crescendo.report.rendering import script_for
from crescendo.report.study_page import sweep_page
from crescendo.report.study_story import Listing, SweepStory
from crescendo.studies.points import Outcome
from crescendo.studies.study_files import MEASURES, at_most, bounded, csv_text, measures_of, write_text
from crescendo.studies.sweeping import PAGES, SEED, Sweep, SweptGroup

_ON_THE_TEST_PART = (
    "{} is measured on the test part: a setting chosen by it was tuned on the test part, and its {} "
    "is too optimistic to report."
)
_PRIVATE = "Each epsilon covers one run, and runs on the same records add up: {}."


def write_sweep(found: Sweep, folder: Path, standalone: bool = False) -> None:
    """Write ``sweep.csv``, then ``sweep.html``: when the page exists, the table is complete."""
    rows = [[*point.values, *measures_of(point.outcome)] for point in found.points]
    page, table = PAGES
    write_text(folder / table, csv_text([*found.keys, *MEASURES], rows))
    write_text(folder / page, sweep_page(story_of(found), script_for(folder, standalone), made_now()))


def story_of(found: Sweep) -> SweepStory:
    """Collect the content of the page."""
    key, lines, log = _lines(found)
    troubles = [
        f"{_setting(found.keys, point.values)}: {point.outcome.status}: {point.outcome.says}"
        for point in found.points
        if point.outcome.status != "done"
    ]
    notes = [] if found.score is None else [_ON_THE_TEST_PART.format(_capital(found.words), found.words)]
    notes += [_PRIVATE.format(total.sentence())] if (total := found.total) is not None else []
    notes += [] if found.withheld is None else [f"{_capital(found.withheld)}."]
    return SweepStory(
        title=f"{PurePath(found.name).name}: {', '.join(found.keys)}",
        subtitle=f"{len(found.points):,} runs of one run file, over {' × '.join(map(_extent, found.axes))}",
        headline=_headline(found),
        measure=found.words,
        x=key,
        lines=lines,
        groups=_groups(found),
        points=_points(found),
        troubles=at_most(troubles),
        notes=notes,
        config=found.run_file,
        log=log,
    )


def _scored(found: Sweep) -> str:
    """Return the heading of a column of scores."""
    return ACCURACY.words if found.score is None else found.score.words


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _extent(axis: Any) -> str:
    return f"{len(axis.values)} value{'s' * (len(axis.values) > 1)} of {axis.key}"


def _setting(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in zip(keys, values, strict=True)) or "the run file as it is"


def _headline(found: Sweep) -> list[tuple[str, str, str]]:
    cards = [("Runs", f"{len(found.points):,}", f"{found.count('done'):,} done")]
    for status in ("diverged", "failed"):
        if found.count(status):
            cards.append((status.capitalize(), f"{found.count(status):,}", "no results; see below"))
    best = found.best()
    mean = None if best is None else best.mean(found.measure)
    if best is not None and mean is not None:
        words = "Lowest loss" if found.score is None else f"Highest {found.words}"
        cards.append((words, number(mean.mean), _setting(found.varied, best.values)))
    return cards


def _groups(found: Sweep) -> Listing:
    head = [*found.varied, "runs", _scored(found), "loss", "rounds", "bytes", "virtual seconds", "went wrong"]
    rows = []
    for group in found.groups():
        wrong = [status for status in ("diverged", "failed") for one in group.outcomes if one.status == status]
        traffic, rounds, seconds = (group.mean(name) for name in ("bytes", "rounds", "virtual_seconds"))
        rows.append(
            [
                *group.values,
                f"{len(group.outcomes)}",
                bounded(group.mean("score")),
                bounded(group.mean("loss"), level),
                "none" if rounds is None else f"{rounds.mean:,.6g}",
                "none" if traffic is None else size(traffic.mean),
                "none" if seconds is None else f"{seconds.mean:,.0f}",
                ", ".join(f"{wrong.count(status)} {status}" for status in dict.fromkeys(wrong)),
            ]
        )
    first = len(found.varied)
    return Listing(head, rows, range(first, first + 6))


def _points(found: Sweep) -> Listing:
    rows = []
    for point in found.points:
        one = point.outcome
        seconds = "none" if one.virtual_seconds is None else f"{one.virtual_seconds:,.0f}"
        rows.append([*point.values, one.status, number(one.score), number(one.loss), seconds, _epsilon(one)])
    first = len(found.keys)
    return Listing(
        [*found.keys, "status", _scored(found), "loss", "virtual seconds", "epsilon"], rows, range(first + 1, first + 5)
    )


def _epsilon(one: Outcome) -> str:
    spent = None if one.privacy is None else one.privacy["epsilon"]
    return f"{spent:.4g}" if spent is not None else "none" if one.privacy is None else "withheld"


# -- the figure ------------------------------------------------------------------------------------------------------------


def _lines(found: Sweep) -> tuple[str, list[StudyLine], bool]:
    """Return lines along the key with the most values, one for each setting of the other keys; none if too many."""
    axes = [axis for axis in found.axes if axis.key != SEED]
    long = max(axes, key=lambda axis: (_numeric(axis.values), len(axis.values)), default=None)
    if long is None or len(long.values) < 2:
        return "", [], False
    place = found.varied.index(long.key)
    others: dict[tuple[str, ...], list[SweptGroup]] = {}
    for group in found.groups():
        others.setdefault(group.values[:place] + group.values[place + 1 :], []).append(group)
    if len(others) > MOST_LINES:
        return "", [], False
    keys = [key for key in found.varied if key != long.key]
    lines = [
        _line(found, _setting(keys, rest) if keys else found.name, groups, place) for rest, groups in others.items()
    ]
    xs = [x for line in lines for x in line.x]
    log = _numeric(long.values) and bool(xs) and min(xs) > 0 and max(xs) >= 30 * min(xs)
    return long.key, lines, log


def _line(found: Sweep, name: str, groups: Sequence[SweptGroup], place: int) -> StudyLine:
    numeric = all(_numeric([group.values[place]]) for group in groups)
    means = [group.mean(found.measure) if group.clean else None for group in groups]
    bounds = any(mean is not None and mean.low is not None for mean in means)
    return StudyLine(
        name,
        x=[float(group.values[place]) if numeric else group.values[place] for group in groups],
        mean=[None if mean is None else mean.mean for mean in means],
        low=[None if mean is None else mean.low for mean in means] if bounds else (),
        high=[None if mean is None else mean.high for mean in means] if bounds else (),
    )


def _numeric(values: Sequence[str]) -> bool:
    """
    >>> _numeric(["1", "2.5e-3"]), _numeric(["1", "size"])
    (True, False)
    """
    try:
        return all(abs(float(value)) < float("inf") for value in values)
    except ValueError:
        return False
