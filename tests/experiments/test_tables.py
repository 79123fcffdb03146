"""Every table starts and has its rows; what it says is measured by running it in full."""

from __future__ import annotations

import pytest

from crescendo.data import load
from experiments import a9a_rounds, w8a_privacy


@pytest.mark.slow
def test_the_a9a_table_has_a_row_per_schedule_and_timing() -> None:
    data = load("synthetic:rows=300,features=5")
    lines = a9a_rounds.table(data, gradients=1500, seeds=1).splitlines()
    assert len(lines) == 2 + 6 and all(line.count("|") == 7 for line in lines)
    assert "| 3 |" in lines[2] and "| 2 |" in lines[5]  # 1,500 gradients: 3 constant rounds of 500, or 2 that grow


@pytest.mark.slow
def test_the_w8a_table_has_private_and_plain_rows() -> None:
    data = load("synthetic:rows=300,features=5")
    lines = w8a_privacy.table(data, gradients=320, seeds=1).splitlines()
    assert len(lines) == 2 + 3 * (2 + 4) and all(line.count("|") == 9 for line in lines)
    assert sum(line.startswith("| none") for line in lines) == 6
