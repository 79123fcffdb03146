"""`crescendo.simulate` with records in memory and with keywords: what it makes of them, and what it refuses."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.calls.keywords import PATHS, RunKeys
from crescendo.errors import CrescendoError
from tests.config.small import small

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.where(X @ [1.0, -2.0, 0.5] > 0, "late", "on time")
untyped: Any = crescendo.simulate  # what a type checker refuses has a sentence too
PUBLIC: dict[str, Any] = {
    "records": 120,
    "classes": ["late", "on time"],
    "clients": 2,
    "gradients": 400,
    "rounds": None,
}


def test_arrays_alone_give_a_trained_model() -> None:
    result = crescendo.simulate(X, Y)
    assert result.accuracy is not None and result.accuracy > 0.9
    assert result.prepared.terms.clients == 5 and result.gradients == 20 * 240
    sizes = [result.prepared.sizes(i) for i in range(result.rounds - 1)]
    assert sizes == sorted(sizes) and sizes[-1] > 5 * sizes[0], "rounds grow"


@pytest.mark.parametrize("kind", ["list", "pandas", "sparse", "columns of a sparse matrix", "float32", "bool labels"])
def test_every_kind_of_array_is_the_same_run(kind: str) -> None:
    x: Any = X
    y: Any = Y
    if kind == "list":
        x, y = X.tolist(), Y.tolist()
    elif kind == "pandas":
        pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
        x = pandas.DataFrame(X, index=np.arange(300)[::-1])
        y = pandas.Series(Y, index=x.index)
    elif "sparse" in kind:
        from scipy import sparse

        x = sparse.csc_array(X) if "columns" in kind else sparse.csr_matrix(X)
    elif kind == "float32":
        x = X.astype(np.float32)
    else:
        y = Y == "on time"
    found, plain = (crescendo.simulate(*pair, gradients=500) for pair in ((x, y), (X, Y)))
    np.testing.assert_allclose(found.model, plain.model, rtol=1e-4, atol=1e-6)


def test_a_data_set_is_records_too() -> None:
    data = crescendo.dataset(X, Y, test=0.5, seed=3)
    assert crescendo.simulate(data, gradients=100).prepared.dataset is data
    for more in ({"classes": ["late", "on time"]}, {"test": 0.1}):
        with pytest.raises(CrescendoError, match="a data set has its labels"):
            untyped(data, **more)


def test_the_run_file_of_a_call_can_be_seen_saved_and_run_again(tmp_path: Path) -> None:
    result = crescendo.simulate(X, Y, clients=3, seed=7, test=0.3, combine="mean", wait=0, timing="staggered")
    (tmp_path / "run.toml").write_text(str(result.config), encoding="utf-8")
    (tmp_path / "whole.toml").write_text(result.config.to_toml(), encoding="utf-8")
    asked = tomllib.loads(str(result.config))
    assert asked["run"] == {"seed": 7} and asked["clients"] == {"count": 3}
    assert asked["schedule"]["wait"] == {"rounds": 0} and asked["timing"] == {"preset": "staggered"}
    for name in ("run.toml", "whole.toml"):
        again = crescendo.simulate(tmp_path / name, data=(X, Y))
        assert np.array_equal(again.model, result.model) and again.metrics == result.metrics


def test_keywords_stand_for_keys_of_a_run_file() -> None:
    plain = crescendo.simulate(small(), overrides=["clients.count=3", "run.seed=5", "schedule.rounds=4"])
    found = crescendo.simulate(small(), clients=3, seed=5, rounds=4)
    assert np.array_equal(plain.model, found.model) and found.rounds == 4
    assert found.config == plain.config
    longer = crescendo.simulate(found.config, gradients=90, objective="logistic")
    assert longer.gradients == 90, "a length takes the place of another"
    assert set(PATHS) == set(RunKeys.__annotations__)


def test_numbers_of_numpy_are_numbers() -> None:
    result = untyped(X, Y, clients=np.int64(2), gradients=np.int32(60), weights=np.array([1.0, 2.0]))
    assert result.prepared.terms.weights == (pytest.approx(1 / 3), pytest.approx(2 / 3)) and result.gradients == 60


def test_epsilon_makes_a_private_run_of_what_was_stated() -> None:
    result = crescendo.simulate(X, Y, epsilon=1.0, **PUBLIC)
    assert result.privacy is not None and result.privacy["epsilon"] <= 1.0
    assert result.privacy["delta"] == 1e-5 and result.privacy["clip"] == 1.0
    assert [one["records"] for one in result.privacy["clients"]] == [120, 120]
    assert result.config.data.classes == ("late", "on time")
    once = crescendo.simulate(X, Y, sigma=2.0, delta=1e-6, mechanism="batch-clip", clip=0.1, **PUBLIC)
    assert once.privacy is not None and once.privacy["mechanism"] == "batch-clip" and once.privacy["delta"] == 1e-6


@pytest.mark.parametrize("missing", ["records", "classes"])
def test_what_must_be_public_is_typed_in_or_refused_with_the_line_to_write(missing: str) -> None:
    given = {name: value for name, value in PUBLIC.items() if name != missing}
    with pytest.raises(CrescendoError, match=rf"lacks {missing} .*crescendo\.simulate\(X, y, .*{missing}=") as found:
        crescendo.simulate(X, Y, epsilon=1.0, **given)
    line = str(found.value).rpartition("write for example ")[2]
    written = eval(line.replace("crescendo.simulate", "dict").replace("(X, y, ", "("))
    assert written["epsilon"] == 1.0 and written["clients"] == 2, "the line has what was typed already"


def test_labels_state_their_classes_by_type_alone() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    public = {name: value for name, value in PUBLIC.items() if name != "classes"}
    one_class = np.ones(300, dtype=bool)
    assert crescendo.simulate(X, one_class, epsilon=1.0, **public).prepared.dataset.classes == (0, 1)
    for categorical in (
        pandas.Series(Y).astype("category"),
        pandas.Categorical(Y),
    ):  # their categories were met, not stated
        with pytest.raises(CrescendoError, match="lacks classes"):
            crescendo.simulate(X, categorical, epsilon=1.0, **public)
        stated = crescendo.simulate(X, categorical, epsilon=1.0, **PUBLIC)
        assert stated.prepared.dataset.classes == ("late", "on time")


def test_a_data_set_whose_classes_were_met_is_not_private() -> None:
    """One record more of a third class made a model of three classes out of a model of two, under the same epsilon."""
    public = {name: value for name, value in PUBLIC.items() if name != "classes"}
    third = Y.astype(object)
    third[5] = "cancelled"
    for labels in (Y, third):
        met = crescendo.dataset(X, labels)
        with pytest.raises(CrescendoError, match="lacks classes"):
            crescendo.simulate(met, epsilon=1.0, **public)
        private = small().plain() | {
            "privacy": {"mechanism": "minibatch", "clip": 1.0, "delta": 1e-5, "sigma": 1.0, "records": 300}
        }
        with pytest.raises(CrescendoError, match="no record may decide"):
            crescendo.simulate(private, data=met)
    with pytest.raises(
        CrescendoError, match="states late, on time, and the classes of arrays are cancelled, late, on time"
    ):
        crescendo.simulate(crescendo.dataset(X, third), epsilon=1.0, **PUBLIC)
    stated = crescendo.dataset(X, Y, classes=["late", "on time"])
    for data, keys in ((stated, public), (stated, PUBLIC), (crescendo.dataset(X, Y), PUBLIC)):
        assert crescendo.simulate(data, epsilon=1.0, **keys).prepared.dataset.classes == ("late", "on time")


def test_a_record_of_a_private_run_decides_about_itself_alone() -> None:
    """Another label or a number that is not finite leaves this record out; classes, schedule and noise stay."""
    odd, labels = X.copy(), Y.astype(object)
    odd[3, 1], labels[5] = np.nan, "cancelled"
    plain, found = (
        crescendo.simulate(*pair, epsilon=1.0, test=0.0, **{**PUBLIC, "records": 150})
        for pair in ((X, Y), (odd, labels))
    )
    assert len(plain.prepared.dataset.train) - len(found.prepared.dataset.train) == 2
    assert found.config == plain.config and found.privacy == plain.privacy


def test_overrides_do_not_make_a_run_private_whose_schedule_was_counted() -> None:
    """400 records gave 1,600 gradients and 399 gave 1,595, both with an epsilon."""
    asked = {"mechanism": "'minibatch'", "epsilon": 2.0, "delta": 1e-5, "clip": 1.0, "records": 200}
    overrides = [f"privacy.{name}={value}" for name, value in asked.items()]
    with pytest.raises(CrescendoError, match=r"overrides ask for privacy.*mechanism='minibatch', epsilon=1.0"):
        crescendo.simulate(X, Y, clients=2, classes=["late", "on time"], overrides=overrides)
    found = crescendo.simulate(X, Y, epsilon=1.0, **PUBLIC, overrides=["run.wire=float16"])
    assert found.privacy is not None, "others are taken"


def test_a_private_call_counts_nothing_that_others_see() -> None:
    """With as many records declared, half the records make the same terms."""
    half = crescendo.simulate(X[:150], Y[:150], epsilon=1.0, **PUBLIC)
    whole = crescendo.simulate(X, Y, epsilon=1.0, **PUBLIC)
    assert half.config == whole.config and half.privacy == whole.privacy
    assert half.prepared.terms.weights == whole.prepared.terms.weights


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: untyped(3), "takes records, as in crescendo.simulate.x, y., the path of a run file"),
        (lambda: untyped(None), "not nothing"),
        (lambda: untyped(X), "labels are missing"),
        (lambda: untyped(small(), Y), "y goes with x"),
        (lambda: untyped(X, Y, data=(X, Y)), "data= goes with a run file"),
        (lambda: untyped(X, Y, client=3), "no keyword client; did you mean clients?"),
        (lambda: untyped(X, Y, budget=3), "it has clients, split"),
        (lambda: untyped(X, Y, clients=0), "clients.count must be a whole number of at least 1, not 0"),
        (lambda: untyped(X, Y, clients="five"), "clients.count must be a whole number"),
        (lambda: untyped(X, Y, gradients=-3), "schedule.gradients must be"),
        (lambda: untyped(X, Y, gradients=9, rounds=12), "write schedule.gradients = 12 or more"),
        (lambda: untyped(X, Y, epochs=0), "5 passes over 240 records are gradients=1200"),
        (lambda: untyped(X, Y, epochs=2, gradients=9), "both say how long the run is"),
        (lambda: untyped(small(), epochs=2), "write gradients=2 \\* N"),
        (lambda: untyped(X, Y, epsilon=-1.0, records=9, classes=["late", "on time"]), "privacy.epsilon must be"),
        (
            lambda: untyped(X, Y, epsilon=1.0, records=150, classes=[0, 1]),
            "none of the 300 records of arrays has one of",
        ),
        (lambda: untyped(X, Y, epsilon=1.0, records="all", classes=["late", "on time"]), "privacy.records"),
        (lambda: untyped(X, Y, epsilon=1.0, records=9, classes=["late", "on time"]), "privacy.records = 9"),
        (lambda: untyped(X, Y, records=9), "privacy.records has no effect"),
        (lambda: untyped(X, Y, test=2.0), "test is a share from 0 to 1"),
        (lambda: untyped(X, Y, overrides="run.seed=1"), "overrides is a list"),
        (lambda: untyped(X, Y[:-1]), "one label a record"),
        (lambda: untyped(X, "label"), "y names a column, and x is no data frame"),
        (lambda: untyped(X[0], Y), "one label a record|rows of numbers"),
        (lambda: untyped(X, Y, objective="logistics"), "objective.kind"),
        (lambda: untyped(X, Y, objective=3), "has no method initial"),
        (lambda: untyped(X, Y, split="by hand"), "clients.split must be"),
        (lambda: untyped(small(), test=(X, Y)), "with a run file, give a separate test part"),
    ],
)
def test_a_mistake_is_one_sentence(call: Any, says: str) -> None:
    with pytest.raises(CrescendoError, match=says) as found:
        call()
    assert "\n" not in str(found.value) and len(str(found.value)) < 400


@pytest.mark.parametrize(
    "length",
    [
        {"rounds": 8, "epochs": 5},
        {"gradients": 1200, "rounds": 8},
        {"gradients": 1200, "sizes": {"kind": "constant", "size": 150}},
        {"rounds": 8, "epochs": 5, "sizes": {"kind": "constant"}},
        {"rounds": 8, "sizes": {"kind": "constant", "size": 150}},
        {"epochs": 5, "rounds": 8, "sizes": {"kind": "power", "power": 0.5}},
    ],
)
def test_lengths_and_sizes_compose_for_a_model_that_does_not_say_how_smooth_it_is(length: dict[str, Any]) -> None:
    class Plain:
        """Logistic regression, and nothing said of its curvature."""

        def initial(self, rng: Any) -> Any:
            return np.zeros(X.shape[1])

        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            x, sign = data.x[rows], 2 * data.y[rows] - 1
            return -(x * (sign / (1 + np.exp(sign * (x @ w))))[:, None]).sum(axis=0)

        def evaluate(self, w: Any, data: Any) -> Any:
            margin = (2 * data.y - 1) * (data.x @ w)
            return {"loss": float(np.log1p(np.exp(-margin)).mean()), "accuracy": float((margin > 0).mean())}

    found = crescendo.simulate(X, Y, objective=Plain(), **length)
    usual = crescendo.simulate(X, Y, objective=Plain(), epochs=5)
    assert (found.gradients, found.rounds) == (1200, 8)
    assert found.config.schedule.steps == usual.config.schedule.steps
    assert found.accuracy is not None and usual.accuracy is not None and found.accuracy > usual.accuracy - 0.05


def test_help_names_every_keyword() -> None:
    shown = inspect.signature(crescendo.simulate).parameters
    assert {"clients", "epsilon", "objective", "out", "overrides"} <= set(shown) and "keys" not in shown
    said = (inspect.getdoc(crescendo.simulate) or "").replace("\n", " ")
    assert [name for name in PATHS if f" {name}" not in said] == []


@pytest.mark.slow
def test_a_torch_module_is_a_model_as_it_is() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    y = X[:, :3].argmax(axis=1)
    steps = {"kind": "constant", "eta": 0.2}
    result = crescendo.simulate(X, y, clients=2, objective=torch.nn.Linear(3, 3), steps=steps, combine="mean")
    assert result.is_torch and result.accuracy is not None and result.accuracy > 0.8

    class Net(torch.nn.Linear):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__(3, 3)

    assert crescendo.simulate(X, y, clients=2, objective=Net, steps=steps, combine="mean").is_torch
    with pytest.raises(CrescendoError, match=r"made is a function, .* objective=crescendo\.torch\.model\(made\)"):

        def made() -> Any:
            return Net()

        crescendo.simulate(X, y, clients=2, objective=made, steps=steps)


def test_a_data_frame_with_text_and_gaps_is_learned_from_and_its_label_may_be_a_column() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.DataFrame({"delay": X[:, 0], "carrier": np.where(X[:, 1] > 0, "UA", "AA"), "id": np.arange(300)})
    frame.loc[3, "delay"] = np.nan
    frame["late"] = np.where(X[:, 0] + 3 * (X[:, 1] > 0) > 1, "yes", "no")
    result = crescendo.simulate(frame, "late", drop=["id"], gradients=3000)
    assert result.accuracy is not None and result.accuracy > 0.85
    assert result.config.data.drop == ("id",)
    assert set(result.predict(frame[:5]).tolist()) <= {"yes", "no"}
    schema = {"columns": {"delay": {"low": -3.0, "high": 3.0, "missing": 0.0}, "carrier": {"values": ["AA", "UA"]}}}
    public: dict[str, Any] = {"records": 120, "classes": ["no", "yes"], "clients": 2, "gradients": 400}
    with pytest.raises(CrescendoError, match="schema"):
        crescendo.simulate(frame, "late", epsilon=1.0, **public)
    private = crescendo.simulate(frame, "late", epsilon=1.0, schema=schema, **public)
    assert private.privacy is not None and private.prepared.dataset.features == 3


def test_numbers_are_predicted_where_the_objective_says_so() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = 2 * x[:, 0] + 1
    found = crescendo.simulate(x, y, objective="least-squares", clients=2)
    assert found.metrics[-1]["r2"] > 0.9 and found.predict([[1.0, 0.0]])[0] == pytest.approx(3, abs=0.5)
    again = crescendo.simulate(crescendo.dataset(x, y, classes=()), clients=2)
    assert again.prepared.objective == found.prepared.objective
    private = crescendo.simulate(
        x,
        y,
        objective="least-squares",
        clients=2,
        epsilon=8.0,
        records=128,
        norm_bound=4.0,
        label_range=(-5, 7),
        gradients=600,
    )
    assert private.privacy is not None and private.accuracy is None
    assert crescendo.simulate(x, y, clients=2).config == found.config, "labels with fractions say it by themselves"
    with pytest.raises(crescendo.ConfigError, match="label_range is missing"):
        crescendo.simulate(x, y, objective="least-squares", clients=2, epsilon=8.0, records=128, norm_bound=4.0)


def test_more_than_two_classes_are_learned_by_softmax() -> None:
    result = crescendo.simulate(X, X.argmax(axis=1), clients=2)
    assert result.config.objective.kind == "softmax" and result.accuracy is not None and result.accuracy > 0.9
