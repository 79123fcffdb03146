"""A plot is the same bytes every time, with any settings of matplotlib."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.pipeline.drawing import draw
from lab.pipeline.experiment import Line, Panel, Plot

PLOT = Plot(
    "two",
    "Two panels",
    (
        Panel(
            "a",
            "rounds",
            "accuracy",
            (Line("band", (1, 2, 4), (0.1, None, 0.4), (0.0, None, 0.3), (0.2, None, 0.5)),),
            "log",
        ),
        Panel(
            "b", "rounds", "loss", (Line("points", (1, 2), (1, 2), (0.5, 1), (2, 4), style="", marker="o", colour=1),)
        ),
        Panel("names", "", "loss", (Line("named", (0, 1), (1, 2), style="", marker="o"),), x_names=("one", "two")),
        Panel("c", "rounds", "loss", (Line("dashed", (1, 2), (1, 2), style="--", colour=9),)),
    ),
)


@pytest.mark.slow
def test_a_plot_is_drawn_to_the_same_bytes(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    first = [path.read_bytes() for path in draw(PLOT, tmp_path)]
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.grid": False}):
        again = [path.read_bytes() for path in draw(PLOT, tmp_path)]
    assert first == again
    assert b"<dc:date>" not in first[0] and first[0].startswith(b"<?xml") and first[1].startswith(b"\x89PNG")
