"""A figure rounds a score once, as the table beside it does: 0.9201 in both, never 0.9202 in one of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crescendo.report.numbers import number
from crescendo.studies import comparison_files
from crescendo.studies.intervals import Interval


def test_a_figure_s_point_is_the_table_s_number(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = Interval.of([0.920148, 0.920148])
    assert number(mean.mean) == "0.9201" and f"{float(f'{mean.mean:.5g}'):.4f}" == "0.9202"
    monkeypatch.setattr(comparison_files, "course", lambda outcomes, measure: ([1.0], [mean]))
    found: Any = SimpleNamespace(contestants=[SimpleNamespace(name="ours", outcomes=[])])
    (line,) = comparison_files._curves(found)["gradients"]
    assert [f"{value:.4f}" for value in (*line.mean, *line.low, *line.high)] == ["0.9201"] * 3
