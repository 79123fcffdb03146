"""Every experiment runs from data to plot in its quick form, on bundled data, and a rerun gives the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.catalogue import EXPERIMENTS
from lab.pipeline.experiment import Effort
from lab.pipeline.stored_findings import StoredFindings
from lab.reproduce import FOLDER, PAGE, reproduce

QUICK = Effort(quick=True)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("quick")
    reproduce("all", out, QUICK, processes=1)
    return out


@pytest.mark.slow
def test_every_experiment_states_what_held_and_draws_what_it_describes(quick: Path) -> None:
    for experiment in (one for one in EXPERIMENTS if not one.long):
        found = StoredFindings.read(quick / FOLDER / f"{experiment.name}.json")
        assert found.quick and found.findings.statements, experiment.name
        for said in found.findings.statements:
            absent = "real-sim" in said.what
            assert (said.verdict == "data not present") == absent and (absent or said.ours), said
            assert 0 <= said.held <= said.held + said.undecided <= said.tried
        assert found.absent == (("real-sim",) if experiment.name == "linear-sizes" else ())
        for plot in found.findings.plots:
            assert all(line.x and len(line.x) == len(line.y) for panel in plot.panels for line in panel.lines), (
                plot.name
            )
            assert (quick / FOLDER / f"{plot.name}.svg").stat().st_size > 10_000
            assert (quick / FOLDER / f"{plot.name}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_page_has_every_experiment_and_its_links_lead_somewhere(quick: Path) -> None:
    text = (quick / PAGE).read_text()
    for experiment in (one for one in EXPERIMENTS if not one.long):
        assert f"## {experiment.title}\n" in text
    for target in re.findall(r"\]\((results/[^)]+)\)", text):
        assert (quick / target).exists(), target
    headings = {
        "".join(c for c in one.lower().replace(" ", "-") if c.isalnum() or c == "-")
        for one in re.findall(r"^## (.+)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings
    assert "None" not in text and "nan" not in text.lower().split()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["biased-data", "rounds-law"])
def test_a_rerun_gives_the_same_bytes(quick: Path, tmp_path: Path, name: str) -> None:
    reproduce(name, tmp_path, QUICK, processes=1)
    for path in sorted((tmp_path / FOLDER).iterdir()):
        assert path.read_bytes() == (quick / FOLDER / path.name).read_bytes(), path.name
