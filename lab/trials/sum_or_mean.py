"""Draws the figures of docs/sum_or_mean.md: the stability of a round by its formula, and the stored runs of `lab.trials.lenet`.

python -m lab.trials.sum_or_mean
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.federation.stability import Stability
from lab.pipeline.drawing import draw
from lab.pipeline.experiment import Line, Panel, Plot
from lab.trials.lenet import LENGTHS, RESULTS
from lab.trials.stored_results import StoredResults

Values = dict[str, Any]
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
SPLITS = {"iid": "unbiased: all digits everywhere", "label": "biased: each client has digits of its own"}


def left_over(x: float, combined: float) -> float:
    """Return the share of an error that a round in step leaves: |1 - a n (1 - e^-x)|, x = eta h s, ``combined`` = a n.

    >>> left_over(0.0, 4.0), round(left_over(100.0, 4.0), 6), round(left_over(100.0, 1.0), 6)
    (1.0, 3.0, 0.0)
    """
    return abs(1 - combined * -math.expm1(-x))


def longest(n: float, d: int) -> float | None:
    """Return the largest x = eta h s at which n clients' sum, up to d rounds late, is stable; None if every x is.

    >>> longest(2, 0), round(longest(4, 0), 4), round(longest(4, 1), 4)
    (None, 0.6931, 0.2877)
    """
    limit = Stability.below(d)
    return None if n <= limit * (1 + 1e-12) else -math.log1p(-limit / n)


def stability() -> Plot:
    xs = tuple(float(x) for x in np.geomspace(0.01, 20, 200))
    clients = tuple(range(2, 33))
    factors = [("mean of any number of clients", 1.0), ("sum of 2 clients", 2.0), ("sum of 4 clients", 4.0)]
    shrinks = [
        Line(label, xs, tuple(left_over(x, combined) for x in xs), colour=k, style=("-", "--", ":")[k])
        for k, (label, combined) in enumerate(factors)
    ]
    shrinks.append(Line("1: the error stays as it is", (xs[0], xs[-1]), (1.0, 1.0), colour=6, style="-"))
    late = ("in step", "a round late", "2 rounds late")
    limits = [
        Line(f"sum, {late[d]}", clients, tuple(longest(n, d) for n in clients), colour=3 + d, marker="os^"[d])
        for d in range(3)
    ]
    limits.append(Line("mean, 2 rounds late", clients, (longest(1, 2),) * len(clients), colour=0, style="--"))
    caption = "Left: what a round leaves of an error. Right: how long a round may be."
    return Plot(
        "sum_or_mean_stability",
        caption,
        (
            Panel(
                "one round in step",
                "length of a round, η h s",
                "error after a round, of 1 before",
                tuple(shrinks),
                "log",
            ),
            Panel("the longest stable round", "clients", "largest η h s", tuple(limits), y_scale="log"),
        ),
    )


def lenet(results: StoredResults) -> Plot:
    ways = [(rounds, combine) for rounds in ("constant", "growing") for combine in ("sum", "mean")]
    said = {"constant": "50 equal rounds, eta 0.0025", "growing": "10 growing rounds, eta0 0.1"}
    panels = []
    for split, title in SPLITS.items():
        lines = []
        for k, (rounds, combine) in enumerate(ways):
            runs = _stored(results, {"rounds": rounds, "combine": combine, "split": split})
            if runs:
                lines.append(_curve(f"{said[rounds]}: {combine}", [one["curve"] for one in runs], k))
        panels.append(Panel(title, "gradients over all clients", "accuracy on the test part", tuple(lines)))
    return Plot(
        "sum_or_mean_lenet",
        "LeNet-5 on MNIST, 4 clients; lines: the middle of 3 seeds, bands: least and most.",
        tuple(panels),
    )


def drift(results: StoredResults) -> Plot:
    measured = []
    for k, (split, title) in enumerate(SPLITS.items()):
        runs = [_stored(results, {"rounds": "longer", "combine": "mean", "split": split, "length": n}) for n in LENGTHS]
        scores = [[one["accuracy"] for one in some if one["accuracy"] is not None] for some in runs]
        kept = [(float(length), some) for length, some in zip(LENGTHS, scores, strict=True) if some]
        middle, low, high = (tuple(float(of(some)) for _, some in kept) for of in (np.median, min, max))
        measured.append(Line(title, tuple(length for length, _ in kept), middle, low, high, k, "-", "os"[k]))
    steps = tuple(float(n) for n in np.geomspace(1, 1000, 60))
    settles = [
        Line("where the mean settles", steps, tuple(_settles(n) for n in steps), colour=2),
        Line("the optimum of both clients' loss", (1, 1000), (_settles(1),) * 2, colour=6, style="--"),
        Line("the mean of the clients' own optima", (1, 1000), (0.5, 0.5), colour=6, style=":"),
    ]
    return Plot(
        "sum_or_mean_drift",
        "Left: LeNet-5, mean, eta = 0.02, the same 20,000 gradients in fewer and longer rounds. Right: two quadratic losses.",
        (
            Panel("LeNet-5 on MNIST", "gradients a client and round", "accuracy after 20,000", tuple(measured), "log"),
            Panel("two quadratic losses", "local steps a round, s", "global model", tuple(settles), "log"),
        ),
    )


def _settles(s: float, eta: float = 0.02, curvatures: Sequence[float] = (1.0, 0.1)) -> float:
    """Return the fixed point of the mean of s local steps, for losses h_c (w - c)^2 / 2 of clients c = 0, 1.

    >>> round(_settles(1), 4), round(_settles(1e6), 4)
    (0.0909, 0.5)
    """
    done = [-math.expm1(s * math.log1p(-eta * h)) for h in curvatures]
    return done[1] / sum(done)


def _stored(results: StoredResults, case: Values) -> list[Values]:
    return [found for setting, found in results if {k: v for k, v in setting.items() if k != "seed"} == case]


def _curve(label: str, curves: list[list[list[float]]], colour: int) -> Line:
    """Return the middle, least and largest of the seeds, up to the length of the shortest."""
    points = min(len(curve) for curve in curves)
    scores = np.array([[point[1] for point in curve[:points]] for curve in curves])
    x = tuple(point[0] for point in curves[0][:points])
    middle, low, high = (tuple(float(y) for y in np.quantile(scores, share, axis=0)) for share in (0.5, 0.0, 1.0))
    return Line(label, x, middle, low, high, colour, ("-", "--", ":", "-")[colour], "os^D"[colour])


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    results = StoredResults(RESULTS)
    for plot in (stability(), lenet(results), drift(results)):
        for path in draw(plot, FIGURES):
            if path.suffix == ".png":
                path.unlink()  # pages show the SVG, which stays sharp in print


if __name__ == "__main__":
    main()
