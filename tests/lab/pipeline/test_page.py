"""The page of results and its figures match the stored results, so that neither is edited by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.catalogue import EXPERIMENTS
from lab.pipeline.drawing import draw
from lab.pipeline.page import results_page
from lab.reproduce import FOLDER, PAGE, stored_in

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "lab" / FOLDER
STORED = stored_in(RESULTS)


def test_the_page_of_results_is_what_is_stored() -> None:
    made = results_page(STORED, EXPERIMENTS, "../lab/results")
    assert (ROOT / "docs" / PAGE).read_text() == made, (
        "python -m lab reproduce rounds-law --out lab --page docs/results.md"
    )


def test_every_experiment_is_stored_whole() -> None:
    names = {one.name for one in STORED}
    assert names >= {one.name for one in EXPERIMENTS if not one.long}
    assert not any(one.quick for one in STORED)


def test_every_figure_is_there_and_no_other() -> None:
    drawn = {f"{plot.name}.{end}" for one in STORED for plot in one.findings.plots for end in ("svg", "png")}
    there = {path.name for path in RESULTS.iterdir() if path.suffix in (".svg", ".png")}
    assert there == drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["constant-sizes", "rounds-law"])
def test_a_figure_is_what_drawing_it_gives(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = {plot.name: plot for one in STORED for plot in one.findings.plots}
    svg, _ = draw(plots[name], tmp_path)
    assert svg.read_bytes() == (RESULTS / svg.name).read_bytes()
