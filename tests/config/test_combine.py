"""``clients.combine`` left out is the mean, and what earlier versions wrote keeps its meaning, which was the sum."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import build_terms
from crescendo.logs import quiet
from crescendo.runs import serving
from tests.config.small import SMALL

BEFORE = Path(__file__).parents[1] / "before"
ROOT = Path(__file__).parents[2]


def test_left_out_it_is_the_mean_with_which_the_papers_own_settings_learn() -> None:
    assert read(SMALL).clients.combine == "mean"
    paper: dict[str, Any] = {
        "data": {"source": "breast_cancer"},
        "clients": {"count": 5},
        "objective": {"l2": "1/N"},
        "schedule": {
            "gradients": 20_000,
            "sizes": {"kind": "power", "scale": 100, "per_client": True},
            "steps": {"kind": "diminishing", "eta0": 0.1, "beta": 0.001},
        },
        "evaluate": {"every": 1_000_000},
    }
    result = crescendo.simulate(paper)
    assert result.diverged is None and (result.accuracy or 0) > 0.9


def test_a_run_folder_from_before_the_key_means_the_sum(tmp_path: Path) -> None:
    assert "combine" not in (BEFORE / "run" / "config.toml").read_text()
    assert read(BEFORE / "run" / "config.toml").clients.combine == "sum"
    now = tmp_path / "config.toml"
    now.write_text(read(SMALL).to_toml())
    assert read(now).clients.combine == "mean", "a folder of this version states what it means"


def test_terms_without_the_word_mean_the_sum_and_terms_by_the_mean_say_so() -> None:
    kept = json.loads((BEFORE / "served" / "terms.json").read_text())["terms"]
    assert "combine" not in kept and build_terms(kept).terms.combine == "sum"
    assert json.loads(terms_text(_served()))["clients"]["combine"] == "mean"


def _served(**clients: Any) -> Config:
    return read(
        {
            **SMALL,
            "clients": {"count": 2, "weights": "uniform", **clients},
            "serve": {"federation": "f", "names": ["a", "b"], "features": 3},
        }
    )


def _asked_before(config: Config, combine: str | None) -> str:
    """The fingerprint that the version before kept: the sum was the default, and so no part of it."""
    stated = config.model_dump(mode="json", exclude_defaults=True)
    clients = {name: value for name, value in stated["clients"].items() if name != "combine"}
    return serving._fingerprint({**stated, "clients": clients | ({"combine": combine} if combine else {})})


@pytest.mark.parametrize("stated", [None, "sum", "mean"])
def test_a_federation_that_runs_goes_on_under_its_own_terms(tmp_path: Path, stated: str | None) -> None:
    config = _served(**({"combine": stated} if stated else {}))
    kept = {"asked": _asked_before(config, "mean" if stated == "mean" else None), "terms": "those that were signed"}
    (tmp_path / "terms.json").write_text(json.dumps(kept))
    assert serving._remembered_terms(config, tmp_path, quiet)[1] == "those that were signed"


def test_a_run_file_that_is_changed_to_the_mean_does_not_get_the_sum_that_was_signed(tmp_path: Path) -> None:
    left_out, stated = _served(), _served(combine="mean")
    (tmp_path / "terms.json").write_text(json.dumps({"asked": _asked_before(left_out, None), "terms": "of the sum"}))
    assert serving._remembered_terms(stated, tmp_path, quiet)[1] != "of the sum"


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.toml")), ids=lambda path: path.name)
def test_every_example_states_it(path: Path) -> None:
    raw = tomllib.loads(path.read_text())
    assert "clients" not in raw or raw["clients"].get("combine") in ("sum", "mean")


def test_a_config_that_was_read_is_not_taken_for_an_earlier_one() -> None:
    once = read(SMALL)
    again = read(once, ["run.seed=1"])
    assert again.clients.combine == "mean"
    assert np.isfinite(crescendo.simulate(again).model).all()
