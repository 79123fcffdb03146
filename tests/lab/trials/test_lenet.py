"""The trials on LeNet-5: settings mean what they state, the search avoids the test part, a stopped trial continues."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.data.from_arrays import dataset
from lab.trials import lenet, private_lenet
from lab.trials.page_tables import DOCS, with_tables
from lab.trials.private_lenet import CLIENTS, RECORDS, STEPS, Setting, parts, sigma_of
from lab.trials.stored_results import StoredResults


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS)
def test_a_part_of_a_private_run_has_its_rounds_its_noise_and_its_moves(steps: str) -> None:
    setting = Setting(8.0, steps=steps)
    sizes, eighth = setting.sizes(), setting.sizes(8)
    assert 0.99 * setting.gradients < sum(size * rounds for size, rounds in sizes) <= setting.gradients
    assert sizes[-1][0] >= 0.99 * STEPS[steps]["growth"] * sizes[0][0] and sizes[-1][0] <= RECORDS
    assert [rounds for _, rounds in sizes] == [rounds for _, rounds in eighth]
    assert sigma_of(setting) < sigma_of(dataclasses.replace(setting, epsilon=2.0))
    moves = []
    for part, listed in ((1, sizes), (8, eighth)):
        asked = setting.run_file({"sigma": 1.0 / part}, part)
        read({**asked, "data": {"source": "mnist"}})
        rule = asked["schedule"]["steps"]
        done = CLIENTS * asked["schedule"]["gradients_per_client"]
        moves += [
            [eta * size / (1 + rule["beta"] * t) for eta, t in ((rule["eta0"], 0), (rule["eta0"], done))]
            for size, _ in listed
        ]
    half = len(moves) // 2
    np.testing.assert_allclose(moves[:half], moves[half:], rtol=0.02)


def test_the_search_never_sees_the_test_part_nor_scores_on_what_it_trains_on() -> None:
    x = np.arange(60_000, dtype=np.float32)[:, None]
    whole = dataset(np.vstack([x, x[:100] - 1e6]), np.arange(60_100) % 2, test=0.0)
    whole = dataclasses.replace(
        whole, train=whole.train.take(np.arange(60_000)), test=whole.train.take(np.arange(60_000, 60_100))
    )
    searched, tested = parts(whole, tested=False), parts(whole, tested=True)
    assert searched.test is not None and tested.test is not None
    assert np.array_equal(searched.train.x, tested.train.x) and tested.test.x.max() < 0
    assert not set(searched.test.x[:, 0].tolist()) & set(searched.train.x[:, 0].tolist()) and searched.test.x.min() >= 0


def test_a_stopped_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    path, calls = tmp_path / "results" / "runs.jsonl", list[int]()

    def measure() -> dict[str, float | None]:
        calls.append(1)
        return {"accuracy": 0.5, "rounds": 3}

    for _ in range(2):
        results = StoredResults(path)
        assert results.measured({"seed": 0, "rounds": "growing"}, measure) == {"accuracy": 0.5, "rounds": 3}
    assert len(calls) == 1 and len(path.read_text().splitlines()) == 1
    assert [setting for setting, _ in StoredResults(path)] == [{"seed": 0, "rounds": "growing"}]


def test_every_case_has_a_run_file_of_its_own_and_a_row() -> None:
    cases = list(lenet.cases())
    files = [str(lenet.config({**case, "seed": 0})) for case in cases]
    assert len(set(files)) == len(files)


def test_the_page_has_the_tables_of_what_is_stored(tmp_path: Path) -> None:
    stored = {"setting": {**cases_of_the_paper()[0], "seed": 0}, "found": {"accuracy": 0.9426}}
    broke = {"setting": {**cases_of_the_paper()[0], "seed": 1}, "found": {"accuracy": None}}
    (tmp_path / "runs.jsonl").write_text(json.dumps(stored) + "\n" + json.dumps(broke) + "\n")
    found = lenet.tables(StoredResults(tmp_path / "runs.jsonl"))
    assert found["settings"][2] == "| 50 equal rounds, eta = 0.0025 | sum | 0.9426 broke off | not measured |"
    page = (DOCS / lenet.PAGE).read_text(encoding="utf-8")
    assert with_tables(page, lenet.tables(StoredResults(lenet.RESULTS))) == page, (
        "run python -m lab.trials.lenet --tables"
    )


def cases_of_the_paper() -> list[dict[str, Any]]:
    return [case for case in lenet.cases() if set(case) == {"rounds", "combine", "split"}]


def test_the_page_on_neural_models_has_the_table_of_what_is_stored() -> None:
    page = (DOCS / private_lenet.PAGE).read_text(encoding="utf-8")
    stored = private_lenet.tables(StoredResults(private_lenet.RESULTS))
    assert with_tables(page, stored) == page, "run python -m lab.trials.private_lenet tables"
