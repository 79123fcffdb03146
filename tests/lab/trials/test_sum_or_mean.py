"""The figures of the page on sum or mean show the stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.pipeline.drawing import draw
from lab.trials import sum_or_mean
from lab.trials.stored_results import StoredResults


@pytest.mark.slow
def test_stored_runs_are_drawn_with_the_band_of_their_seeds(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the plots extra")
    setting = {"rounds": "growing", "combine": "mean", "split": "iid"}
    runs = [
        {"setting": {**setting, "seed": seed}, "found": {"curve": [[0, 0.1, 2.3], [400, 0.5 + seed / 10, 1.0]]}}
        for seed in range(3)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
    plot = sum_or_mean.lenet(StoredResults(tmp_path / "runs.jsonl"))
    (line,) = plot.panels[0].lines
    assert line.x == (0, 400) and line.y[1] == pytest.approx(0.6) and (line.low[1], line.high[1]) == (0.5, 0.7)
    for one in (plot, sum_or_mean.stability()):
        assert all(path.stat().st_size > 5000 for path in draw(one, tmp_path))
