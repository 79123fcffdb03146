"""What a program and a notebook see of a result: facts, never records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.errors import CrescendoError
from tests.config.small import small

SECRET = 123456.789


def run(**more: Any) -> crescendo.Result:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    x[7] = SECRET
    y = np.where(x[:, 0] + x[:, 1] > 0, "late", "on time")
    config = {
        "clients": {"count": 2},
        "schedule": {
            "rounds": 3,
            "sizes": {"kind": "constant", "size": 20},
            "steps": {"kind": "constant", "eta": 1e-6},
        },
    }
    return crescendo.simulate({**config, **more}, data=crescendo.dataset(x, y, test=0.0))


def test_no_way_to_look_at_a_result_shows_a_record() -> None:
    result = run()
    for text in (repr(result), str(result), result.summary(), result._repr_html_()):
        assert "123456" not in text and "array(" not in text and len(text) < 2000
    data = result.prepared.dataset
    for what in (result.prepared, data, data.train):
        assert "123456" not in repr(what)


def test_a_run_that_diverged_says_so_wherever_it_is_shown() -> None:
    steps = {"kind": "constant", "eta": 1e6}
    result = run(schedule={"rounds": 3, "sizes": {"kind": "constant", "size": 20}, "steps": steps})
    assert result.diverged is not None and repr(result).endswith(", diverged)")
    for text in (result.summary(), result._repr_html_()):
        assert "the run diverged: the loss" in text
    assert "diverged" not in repr(run())


def test_a_result_in_a_line_has_its_accuracy_loss_rounds_and_epsilon() -> None:
    result = crescendo.simulate(small())
    assert repr(result).startswith(
        f"Result(accuracy={result.accuracy:.4f}, commonest class=0.6000, loss={result.loss:.4f}, rounds={result.rounds}"
    )
    assert "epsilon" not in repr(result)
    private = crescendo.simulate(
        {
            "data": {"source": "synthetic:rows=200,features=3"},
            "clients": {"count": 2},
            "schedule": {
                "rounds": 2,
                "sizes": {"kind": "constant", "size": 8},
                "steps": {"kind": "constant", "eta": 0.01},
            },
            "privacy": {"mechanism": "minibatch", "delta": 1e-5, "sigma": 2.0, "clip": 1.0, "records": 80},
        }
    )
    assert private.privacy is not None
    assert f"epsilon={private.privacy['epsilon']:.4g} (simulated)" in repr(private)
    assert "simulated" in private.summary() and "simulated" in private._repr_html_()


def test_names_of_data_are_text_in_a_notebook_and_not_markup() -> None:
    x, y = np.eye(6), np.arange(6) % 2
    data = crescendo.dataset(x, y, test=0.0, name="<script>alert(1)</script>")
    steps = {"kind": "constant", "eta": 0.1}
    config = {
        "clients": {"count": 1},
        "schedule": {"rounds": 1, "sizes": {"kind": "constant", "size": 4}, "steps": steps},
    }
    assert "<script>" not in crescendo.simulate(config, data=data)._repr_html_()


def test_the_history_has_a_row_for_each_measured_model() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    result = crescendo.simulate(small())
    assert isinstance(result.history, pandas.DataFrame)
    assert result.history["k"].tolist() == [row["k"] for row in result.metrics]


def test_a_plot_has_the_measured_accuracies_against_what_was_asked() -> None:
    result = crescendo.simulate(small())
    line = result.plot(against="bytes").data[0]
    assert list(line.y) == [row["accuracy"] for row in result.metrics]
    assert list(line.x) == [row["bytes_up"] + row["bytes_down"] for row in result.metrics]
    with pytest.raises(CrescendoError, match="not 'time'"):
        result.plot(against="time")


def test_predictions_are_labels_as_they_were_written() -> None:
    result = run(
        schedule={"rounds": 5, "sizes": {"kind": "constant", "size": 60}, "steps": {"kind": "constant", "eta": 0.1}}
    )
    found = result.predict([[5.0, 5.0], [-5.0, -5.0]])
    scaling = result.prepared.dataset.scaling
    assert scaling is not None, "the model is about features of one size"
    margins = scaling.apply(np.array([[5.0, 5.0], [-5.0, -5.0]])) @ result.model[:2] + result.model[2]
    assert found.tolist() == np.where(margins >= 0, "on time", "late").tolist()
    assert found.tolist() == result.sklearn_model().predict([[5.0, 5.0], [-5.0, -5.0]]).tolist()


@pytest.mark.parametrize(
    ("x", "says"),
    [
        ([[1.0]], r"records of shape \(1,\)"),
        ([1.0, 2.0], "rows of numbers are needed"),
        (3.0, "single number"),
        ([["a", "b"]], "rows of numbers"),
    ],
)
def test_what_are_no_records_is_refused_in_a_sentence(x: Any, says: str) -> None:
    with pytest.raises(CrescendoError, match=says):
        run().predict(x)


@pytest.mark.slow
def test_torch_and_jax_models_predict_what_their_accuracy_counts() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(90, 4)).astype(np.float32), np.array(["a", "b", "c"])[np.arange(90) % 3]
    data = crescendo.dataset(x, y, test=(x[:30], y[:30]))
    config = {
        "clients": {"count": 2},
        "schedule": {"rounds": 2, "sizes": {"kind": "constant", "size": 8}, "steps": {"kind": "constant", "eta": 0.1}},
    }

    def scores(params: Any, x: Any) -> Any:
        return x @ params

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -jax.nn.log_softmax(scores(params, x))[jax.numpy.arange(len(y)), y]

    models = (
        crescendo.torch.model(torch.nn.Linear(4, 3)),
        crescendo.jax.model(loss, np.zeros((4, 3), np.float32), predict=scores),
    )
    for objective in models:
        result = crescendo.simulate(config, objective=objective, data=data)
        assert np.mean(result.predict(x[:30]) == y[:30]) == pytest.approx(result.accuracy)
    with pytest.raises(CrescendoError, match="predicts nothing"):
        without = crescendo.jax.model(loss, np.zeros((4, 3), np.float32))
        crescendo.simulate(config, objective=without, data=data).predict(x)


def test_a_pair_of_arrays_is_data_and_anything_else_is_told_what_data_are() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    schedule = {"rounds": 1, "sizes": {"kind": "constant", "size": 4}, "steps": {"kind": "constant", "eta": 0.1}}
    config = {"clients": {"count": 2}, "schedule": schedule}
    pair, made = crescendo.simulate(config, data=(x, y)), crescendo.simulate(config, data=crescendo.dataset(x, y))
    assert np.array_equal(pair.model, made.model)
    wrong: Any
    for wrong in (x, "file.csv"):
        with pytest.raises(CrescendoError, match=f"not a {type(wrong).__name__}"):
            crescendo.simulate(config, data=wrong)
    for wrong in ([x, y], {"x": x}):  # a list or a dictionary is of clients
        with pytest.raises(CrescendoError, match="a pair"):
            crescendo.simulate(config, data=wrong)


def test_dir_lists_every_public_name() -> None:
    assert set(crescendo.__all__) <= set(dir(crescendo)) and {"simulate", "torch", "compare"} <= set(dir(crescendo))


def test_numbers_that_are_not_finite_are_no_divergence_and_have_no_class() -> None:
    x, y = np.random.default_rng(3).normal(size=(40, 2)), np.arange(40) % 2
    schedule = {"rounds": 1, "sizes": {"kind": "constant", "size": 4}, "steps": {"kind": "constant", "eta": 0.1}}
    config = {"clients": {"count": 2}, "schedule": schedule}
    result, broken = crescendo.simulate(config, data=(x, y)), x.copy()
    broken[5, 1] = np.nan
    with pytest.raises(
        CrescendoError, match=r"not finite are in 1 of 32 training records|not finite are in 1 of 8 test records"
    ):
        crescendo.simulate(config, data=(broken, y))
    with pytest.raises(CrescendoError, match="record 5 of x"):
        result.predict(broken)
    private = {"mechanism": "minibatch", "sigma": 3.0, "delta": 1e-3, "clip": 1.0, "records": 16}
    asked = {**config, "privacy": private, "data": {"source": "arrays", "classes": [0, 1]}}
    assert np.isfinite(crescendo.simulate(asked, data=(broken, y)).model).all()


def test_a_text_in_place_of_a_list_is_not_read_letter_by_letter() -> None:
    with pytest.raises(CrescendoError, match=r'over must be a list, here \["run.seed=0..2"\]'):
        crescendo.sweep(small(), "run.seed=0..2")
    with pytest.raises(CrescendoError, match=r'rivals must be a list, here \["fedavg", "fedbuff"\]'):
        crescendo.compare(small(), "fedavg,fedbuff")
