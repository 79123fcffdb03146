"""Every algorithm from one run file, through `simulate`: it ends, counts, repeats itself and reaches the optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crescendo
from crescendo.algorithms.algorithm_kinds import ALGORITHMS, OURS
from crescendo.core.vectors import message_bytes
from crescendo.data.records import Dataset
from crescendo.runs.result import Result

EVERY = list(ALGORITHMS)
SYNCHRONOUS, TASKS = ["fedavg", "fedprox", "scaffold"], ["fedasync", "fedbuff"]
CENTRES = np.array([[2.0, 0.0], [0.0, 4.0], [-1.0, -1.0]])
WEIGHTS = (0.2, 0.5, 0.3)


class Distance:
    """The loss |w - x|^2 / 2, whose minimiser is the clients' weighted mean."""

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return np.array([5.0, -5.0])

    def gradient(self, w: np.ndarray, data: Any, rows: Any) -> np.ndarray:
        return np.asarray(len(rows) * w - data.x[rows].sum(axis=0))

    def evaluate(self, w: np.ndarray, data: Any, weighted: Any = None, metrics: Any = ()) -> dict[str, Any]:
        models = np.atleast_2d(w)
        means = [np.average(((one - data.x) ** 2).sum(axis=1) / 2, weights=weighted) for one in models]
        return {"loss": np.array(means) if w.ndim > 1 else means[0]}


def three_centres() -> Dataset:
    """60 records around each of three points, each point one client's."""
    rng, y = np.random.default_rng(1), np.repeat([0, 1, 2], 60)
    return crescendo.dataset(CENTRES[y] + rng.normal(scale=0.5, size=(180, 2)), y, test=0.0)


def job(timing: dict[str, Any] | None = None, gradients: int = 3000, scale: int = 30, **clients: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 5},
        "clients": {"count": 3, "split": "label", "weights": list(WEIGHTS), **clients},
        "schedule": {
            "gradients": gradients,
            "sizes": {"kind": "power", "scale": scale},
            "steps": {"kind": "diminishing", "eta0": 0.1, "beta": 0.005},
        },
        "timing": timing or {},
    }


def run(name: str, config: dict[str, Any], **options: Any) -> Result:
    return crescendo.simulate(config, objective=Distance(), data=three_centres(), algorithm=name, options=options)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_it_reaches_the_minimiser_of_the_weighted_objective(name: str) -> None:
    """Clients whose records differ and whose weights are not their sizes: weighing twice, or not at all, would end elsewhere."""
    config = job({"latency": {"kind": "exponential", "mean": 3.0}})
    config["schedule"]["sizes"] = {"kind": "constant", "size": 15}
    config["schedule"]["steps"] = {"kind": "diminishing", "eta0": 0.05, "beta": 0.01}
    data, result = three_centres(), run(name, config)
    best = sum(p * data.train.x[data.train.y == c].mean(axis=0) for c, p in enumerate(WEIGHTS))
    unweighted = data.train.x.mean(axis=0)
    assert np.linalg.norm(result.model - best) < 0.2 < 0.5 < np.linalg.norm(unweighted - best)
    assert result.gradients == 3000 and result.metrics[-1]["gradients"] == 3000


@pytest.mark.parametrize("name", EVERY)
def test_it_counts_the_bytes_of_every_message(name: str) -> None:
    result = run(name, job())
    one, two = message_bytes(2, "float32"), message_bytes(4, "float32")
    updates, first = len(result.trace.tables["updates"]["round"]), 3 * one
    expected = {
        "crescendo": (updates * one, first + 3 * result.rounds * one),
        "fedavg": (updates * one, first + 3 * result.rounds * one),
        "fedprox": (updates * one, first + 3 * result.rounds * one),
        "scaffold": (updates * two, first + 3 * result.rounds * two),
        "fedasync": (
            updates * one,
            first + (updates - 3) * one,
        ),  # each answer carries a task, and three had one at the start
        "fedbuff": (updates * one, first + (updates - 3) * one),
        "pooled": (0, 0),
    }
    assert (result.bytes_up, result.bytes_down) == expected[name]
    assert (result.metrics[-1]["bytes_up"], result.metrics[-1]["bytes_down"]) == expected[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name != OURS])
def test_no_more_rounds_than_the_run_file_has_unless_asked(name: str) -> None:
    ours, rival, asked = run(OURS, job()), run(name, job()), run(name, job(), local_steps=10)
    ends = {"fedasync": 3 * ours.rounds}.get(name, ours.rounds)  # one client's model is a move of FedAsync's
    assert 0.9 * ends <= rival.rounds <= ends
    assert asked.rounds == (300 if name == "fedasync" else 100) and asked.gradients == 3000


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_all_clients_take_as_many_local_steps_whatever_their_weights(name: str) -> None:
    segments = run(name, job()).trace.tables["segments"]
    lengths = segments["last"] - segments["first"]
    whole = segments["round"] < segments["round"].max()
    assert len(set(lengths[whole].tolist())) == 1


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(EVERY),
    speed=st.lists(st.floats(0.3, 8.0), min_size=3, max_size=3),
    latency=st.floats(0.0, 40.0),
    duplicate=st.sampled_from([0.0, 0.4]),
    lose=st.sampled_from([0.0, 0.3]),
    crash=st.sampled_from([None, {"every": 150.0, "down": 30.0}]),
    absent_after=st.sampled_from([None, 10.0]),
    deadline=st.sampled_from([0.0, 25.0]),
)
def test_whatever_happens_it_ends_with_every_gradient_taken_once(
    name: str, speed: list[float], latency: float, deadline: float, **rest: Any
) -> None:
    times = {"kind": "exponential", "mean": latency} if latency else 0.0
    timing = {"speed": speed, "latency": times, **{key: value for key, value in rest.items() if value is not None}}
    options = {"deadline": deadline} if name in SYNCHRONOUS else {}
    result = run(name, job(timing, gradients=600, scale=15), **options)
    updates = result.trace.tables["updates"]
    pairs = list(zip(updates["client"].tolist(), updates["round"].tolist(), strict=True))
    assert len(pairs) == len(set(pairs)), "nothing is applied twice"
    assert result.gradients == sum(result.prepared.working.share(i, c) for c, i in pairs) <= 600
    if (name in SYNCHRONOUS and not deadline and rest["absent_after"] is None) or name in TASKS or name == "pooled":
        assert result.gradients == 600, "and nothing is left out"
    again = run(name, job(timing, gradients=600, scale=15), **options)
    assert np.array_equal(again.model, result.model) and again.metrics == result.metrics


@pytest.mark.parametrize("name", TASKS)
def test_a_quick_client_does_more_of_the_tasks_and_the_run_ends_sooner(name: str) -> None:
    timing = {"speed": [1.0, 1.0, 10.0]}
    free, waiting = run(name, job(timing)), run("fedavg", job(timing))
    done = np.bincount(free.trace.tables["updates"]["client"])
    assert done[2] > 7 * done[0] and free.virtual_seconds < 0.3 * waiting.virtual_seconds


@pytest.mark.parametrize("name", EVERY)
def test_the_step_size_follows_the_gradients_of_all_clients(name: str) -> None:
    """At the same count of gradients every algorithm has the same step size, so that none is slowed by its bookkeeping."""
    terms = run(name, job(gradients=600, scale=15)).prepared.working
    c = 0
    for i in (0, terms.rounds // 2, terms.rounds - 2):
        assert terms.etas(i, c)[0] == pytest.approx(0.1 / (1 + 0.005 * terms.before(i)))
    assert run(name, job(gradients=600, scale=15), step_scale=3.0).prepared.working.etas(0, c)[0] == pytest.approx(0.3)


def test_steps_by_slot_have_the_labels_of_all_clients_too() -> None:
    config = job(gradients=600, scale=15)
    config["schedule"]["steps"]["per"] = "slot"
    for name, stride in (("fedavg", 3), ("fedbuff", 1), ("pooled", 1)):
        terms = run(name, config).prepared.working
        etas, before = terms.etas(2, 0), terms.before(2)
        labels = before + stride * np.arange(len(etas))
        np.testing.assert_allclose(etas, 0.1 / (1 + 0.005 * labels))


@pytest.mark.slow
def test_our_own_algorithm_is_the_default_and_options_change_its_steps_alone() -> None:
    plain, named, scaled = (
        run(OURS, job()),
        crescendo.simulate(job(), objective=Distance(), data=three_centres()),
        run(OURS, job(), step_scale=0.5),
    )
    assert np.array_equal(plain.model, named.model) and plain.metrics == named.metrics
    assert plain.prepared.working is plain.prepared.terms
    assert scaled.prepared.working.etas(0, 0)[0] == 0.05 and scaled.rounds == plain.rounds


def test_pooled_sgd_is_sgd() -> None:
    data, result = three_centres(), run("pooled", job(gradients=600))
    terms, w = result.prepared.working, Distance().initial(np.random.default_rng())
    from crescendo.algorithms.pooled import PooledRecords

    chances = np.choose(data.train.y.astype(int), [p / 60 for p in WEIGHTS])
    drawn = PooledRecords(terms, 180, chances, 5)
    rows = []
    for i in range(terms.rounds):
        slots = drawn.draw(i, 2)
        rows.extend(slots.rows.tolist())
        for row, eta in zip(slots.rows, slots.etas, strict=True):
            w = w - eta * (w - data.train.x[row])
    np.testing.assert_allclose(result.model, w, rtol=1e-12)
    seen = np.bincount(data.train.y[rows].astype(int)) / 600
    np.testing.assert_allclose(seen, WEIGHTS, atol=0.06)
    assert result.virtual_seconds == pytest.approx(200.0), "three clients at one gradient a second each"


@pytest.mark.parametrize("name", EVERY)
def test_what_may_be_tuned_is_declared_and_lies_within_its_range(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert "step_scale" in algorithm.tunable and set(algorithm.tunable) <= {one.name for one in algorithm.parameters}
    for part in (0.0, 0.3, 1.0):
        algorithm.made({option: search.at(part) for option, search in algorithm.tunable.items()})
    for option in algorithm.parameters:
        assert option.says and algorithm.made({option.name: option.default}) == algorithm.made()


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("fedavgg", {}, 'no algorithm "fedavgg"; did you mean "fedavg"'),
        ("zebra", {}, "choose one of crescendo, fedavg"),
        ("fedbuff", {"bufer": 3}, 'fedbuff has no option "bufer"; did you mean "buffer"'),
        ("crescendo", {"local_steps": 3}, 'crescendo has no option "local_steps"'),
        ("fedprox", {"mu": -1.0}, "fedprox: mu must be 0 or more, got -1"),
        ("fedasync", {"alpha": 1.5}, "fedasync: alpha must be 1 or less, got 1.5"),
        ("fedavg", {"local_steps": 2.5}, "fedavg: local_steps must be a whole number"),
        ("fedavg", {"rate": math.nan}, "fedavg: rate must be a finite number"),
        ("scaffold", {"local_steps": 10**6}, "local_steps must be at most the 3000 gradients of the run"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(crescendo.ConfigError, match=says.replace("(", r"\(")):
        run(name, job(), **options)


@pytest.mark.parametrize("name", [name for name in EVERY if name != OURS])
def test_what_a_rival_cannot_do_is_refused_before_any_data_are_read(name: str) -> None:
    missing = {**job(), "data": {"source": "nowhere.csv"}}
    with pytest.raises(
        crescendo.ConfigError, match=f"{name} moves all coordinates in every round; leave schedule.blocks out"
    ):
        crescendo.simulate({**missing, "schedule": {**missing["schedule"], "blocks": 2}}, algorithm=name)
    with pytest.raises(crescendo.UsageError, match=f"cannot state {name}; remove out="):
        crescendo.simulate(missing, algorithm=name, out="anywhere")
    with pytest.raises(crescendo.UsageError, match="cannot state options; remove out="):
        crescendo.simulate(missing, options={"step_scale": 2.0}, out="anywhere")
    if not ALGORITHMS[name].private:
        private = {"mechanism": "minibatch", "sigma": 1.0, "delta": 1e-5, "clip": 1.0, "records": 60}
        with pytest.raises(crescendo.ConfigError, match=f"messages of {name}'s clients, so it has no epsilon"):
            crescendo.simulate({**missing, "privacy": private}, algorithm=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_diverging_run_ends_with_a_sentence() -> None:
    for name in EVERY:
        with pytest.raises(crescendo.UsageError, match="diverged"):
            run(name, job(gradients=900), step_scale=1e4)
