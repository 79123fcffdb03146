"""The examples run, and what their comments promise is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.apps.run import simulate
from crescendo.apps.runfile import read

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_flights_of_make_run_keep_their_accuracy_and_their_epsilon() -> None:
    pytest.importorskip("pandas")
    found = simulate(EXAMPLES / "flights.toml")
    assert (found.gradients, found.rounds, found.constant.rounds) == (252_500, 100, 5_050)
    assert found.accuracy is not None and found.accuracy > 0.90 and found.metrics[-1]["auc"] > 0.902
    assert found.privacy is not None and found.privacy["epsilon"] <= 0.33 and found.privacy["simulated"] is True
    assert found.noise_free is not None and found.noise_free["accuracy"] > 0.90
    assert found.prepared.names == ("AA", "B6", "DL", "EV", "UA")


@pytest.mark.slow
@pytest.mark.parametrize("timing", ["lock-step", "staggered", "heterogeneous"])
def test_a9a_needs_nine_rounds(shared_data: Path, timing: str) -> None:
    found = simulate(read(EXAMPLES / "a9a.toml", [f"data.folder={shared_data}", f"timing.preset={timing}"]))
    assert (found.gradients, found.rounds, found.constant.rounds) == (20_000, 9, 40)
    assert found.accuracy is not None and found.accuracy > 0.79


@pytest.mark.slow
def test_a_model_of_ones_own_learns_the_digits() -> None:
    found = simulate(EXAMPLES / "own_model.toml")
    assert found.accuracy is not None and found.accuracy > 0.85


def test_a_model_of_ones_own_takes_under_thirty_lines() -> None:
    assert len((EXAMPLES / "own_model.py").read_text().splitlines()) < 30
