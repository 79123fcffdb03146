"""Summaries of outcomes: selects, averages, prints and draws scores in the same way for every experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lab.pipeline.experiment import Line, Outcome
from lab.pipeline.verdicts import Scores, differences, interval

COMBINATIONS = ("sum", "mean")
TIMINGS = ("lock-step", "staggered", "heterogeneous")
SAME = 0.01  # accuracies at most this far apart count as the same


def where(outcomes: Iterable[Outcome], **values: Any) -> list[Outcome]:
    """Return the outcomes with these values whose data were present."""
    return [
        one for one in outcomes if "absent" not in one and all(one[name] == value for name, value in values.items())
    ]


def settings_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return the pairs of combination and timing that occur.

    >>> settings_of([{"combine": "sum", "timing": "lock-step", "size": size} for size in (1, 2)])
    [{'combine': 'sum', 'timing': 'lock-step'}]
    """
    pairs = dict.fromkeys((one["combine"], one["timing"]) for one in outcomes)
    return [{"combine": combine, "timing": timing} for combine, timing in pairs]


def named(setting: dict[str, Any]) -> str:
    return f"{setting['combine']}, {setting['timing']}"


def mean(accuracies: Sequence[float | None]) -> float | None:
    """Return the mean; None if a run broke off.

    >>> mean([0.25, 0.75]), mean([0.25, None])
    (0.5, None)
    """
    known = [one for one in accuracies if one is not None]
    return float(np.mean(known)) if known and len(known) == len(accuracies) else None


def spread(accuracies: Sequence[float | None]) -> str:
    """Return the mean and standard deviation over seeds, as text.

    >>> spread([0.84, 0.85]), spread([0.84, None])
    ('0.8450 ± 0.0050', 'broke off (1 of 2)')
    """
    known = [one for one in accuracies if one is not None]
    if len(known) < len(accuracies):
        return f"broke off ({len(accuracies) - len(known)} of {len(accuracies)})"
    return f"{short(float(np.mean(known)))} ± {short(float(np.std(known)))}"


def short(value: float | None, digits: int = 4) -> str:
    """
    >>> short(0.8443), short(1.0), short(None), short(-0.25, 2)
    ('0.8443', '1.0000', 'broke off', '-0.25')
    """
    if value is None:
        return "broke off"
    return f"{value:.{digits}f}"


def span(values: Sequence[float | None]) -> str:
    """Return the least and the largest of several means, as text.

    >>> span([0.84, 0.8312]), span([0.5, 0.5]), span([0.5, None])
    ('0.8312 to 0.8400', '0.5000', '0.5000, or broke off')
    """
    known = sorted({short(one) for one in values if one is not None}, key=float)
    text = " to ".join(dict.fromkeys([known[0], known[-1]])) if known else ""
    broke = "broke off" if any(one is None for one in values) else ""
    return ", or ".join(part for part in (text, broke) if part)


def gap(pairs: Sequence[tuple[Scores, Scores]]) -> str:
    """Return how far the first score lies above the second, over all pairs, with the widest of their intervals.

    >>> gap([([0.8], [0.75]), ([0.8], [0.9])])
    '-0.1000 to +0.0500'
    >>> gap([([0.8, 0.8], [0.7, 0.7]), ([0.8, 0.8], [0.9, 0.8])])
    '-0.0500 to +0.1000, ± 0.6353 or less'
    """
    means = [(mean(a), mean(b)) for a, b in pairs]
    known = sorted(a - b for a, b in means if a is not None and b is not None)
    if not known:
        return "broke off"
    texts = [short(one) if one < 0 else f"+{short(one)}" for one in (known[0], known[-1])]
    broke = ", or broke off" if len(known) < len(means) else ""
    whole = [pair for pair in pairs if None not in (*pair[0], *pair[1])]
    return " to ".join(dict.fromkeys(texts)) + margin([differences(*pair) for pair in whole]) + broke


def margin(several: Sequence[Scores]) -> str:
    """Return half the widest interval of some means, as text; empty for single seeds.

    >>> margin([[0.8, 0.9], [0.8, 0.8]]), margin([[0.8]]), margin([])
    (', ± 0.6353 or less', '', '')
    """
    bounds = [found for one in several if (found := interval(one)) is not None]
    if not bounds:
        return ""
    return f", ± {short(max(high - low for low, high in bounds) / 2)}{' or less' if len(bounds) > 1 else ''}"


def best_of(several: Sequence[Scores]) -> Scores:
    """Return the scores with the highest mean; a run that broke off counts as 0."""
    return max(several, key=lambda scores: sum(one or 0.0 for one in scores) / len(scores))


def score_line(label: str, x: Sequence[float], runs: Sequence[Outcome], **look: Any) -> Line:
    """Return mean accuracies with a band from the least to the largest of the seeds."""
    known = [[score for score in one["accuracies"] if score is not None] for one in runs]
    return Line(
        label,
        tuple(x),
        tuple(mean(one["accuracies"]) for one in runs),
        tuple(min(scores, default=None) for scores in known),
        tuple(max(scores, default=None) for scores in known),
        **look,
    )


def curve_line(label: str, run: Outcome, **look: Any) -> Line:
    """Return accuracy against gradients during training, with a band from the least to the largest of the seeds.

    The first model, which has learned nothing, is left out: on skewed classes it would flatten the rest of the curve.
    """
    curve = run["curve"]
    x, y, low, high = (tuple(curve[name][1:]) for name in ("gradients", "mean", "low", "high"))
    return Line(label, x, y, low, high, **look)


def look_of(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the colour of a combination, and the dashes and marker of a timing."""
    j = TIMINGS.index(setting["timing"])
    return {"colour": COMBINATIONS.index(setting["combine"]), "style": ("-", "--", ":")[j], "marker": "os^"[j]}


def commonest_class(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """Return a remark for each problem: the accuracy of always answering with the commonest class.

    >>> commonest_class([{"problem": "ijcnn1", "commonest": 0.905}, {"problem": "a9a", "absent": "a9a"}])
    ('Always answering with the commonest class is right for 0.9050 of the test part of ijcnn1.',)
    """
    found = {one["problem"]: one["commonest"] for one in outcomes if one.get("commonest") is not None}
    words = "Always answering with the commonest class is right for {} of the test part of {}."
    return tuple(words.format(short(share), problem) for problem, share in found.items())
