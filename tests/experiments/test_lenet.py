"""The experiments on LeNet-5: what their quick paths compute is what the product computes, and a stopped one goes on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from crescendo.data.from_arrays import dataset
from crescendo.objectives import ModelFile
from experiments import lenet
from experiments.private_lenet import AXES, DELTA, NETS, RECORDS, Setting, parts, sigma_of
from experiments.stored_results import StoredResults


@pytest.mark.slow
def test_the_quick_search_sums_the_clipped_gradients_of_the_product() -> None:
    pytest.importorskip("jax", reason="jax is not installed: the jax extra")
    from experiments.quick_private_sgd import accuracy, clipped_sum

    rng = np.random.default_rng(0)
    data = dataset(rng.random((90, 784)).astype(np.float32), np.arange(90) % 10, test=0.1).train
    goal = ModelFile.read("jax:lenet").made(data, {"activation": "tanh", "pool": "mean", "gain": 1.7})
    w, rows = np.asarray(goal.initial(rng), dtype=np.float64), np.arange(70)
    for clip in (0.2, 50.0):
        summed = clipped_sum(w, data.x, data.y.astype(np.int32), rows, clip, "tanh", "mean")
        np.testing.assert_allclose(summed, goal.gradient(w, data, rows, clip, unit=2.0**-40), atol=2e-5)
    assert accuracy(w, data.x, data.y.astype(np.int32), "tanh", "mean") == goal.evaluate(w, data)["accuracy"]


@pytest.mark.slow
def test_every_setting_keeps_its_gradients_and_needs_more_noise_for_a_smaller_epsilon() -> None:
    for growth in AXES["growth"]:
        setting = Setting(8.0, growth=growth)
        sizes = setting.sizes()
        assert 0.99 * setting.gradients < sum(size * rounds for size, rounds in sizes) <= setting.gradients
        assert sizes[-1][0] >= 0.99 * growth * sizes[0][0] and sizes[-1][0] <= RECORDS
        assert sigma_of(setting) < sigma_of(dataclasses.replace(setting, epsilon=2.0))
    assert DELTA < 1 / RECORDS and Setting(8.0).net in NETS


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
    said = lenet.table([("growing", [{"rounds": 10, "accuracy": 0.9426}, {"rounds": 10, "accuracy": None}])])
    assert said.splitlines()[-1] == "| growing | 10 | .9426 broke off |"
