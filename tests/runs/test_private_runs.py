"""Private runs: what a run spends is counted from what was really sent, by an accountant that shares no code with ours."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import crescendo
from crescendo.core.arrays import Floats
from crescendo.errors import ConfigError, Refused
from crescendo.objectives import Logistic
from crescendo.runs.result import Result
from crescendo.runs.run_events import Event, ModelsMeasured, RoundCompleted, RunEnded, WithoutNoise
from crescendo.runs.simulate import simulate
from tests.config.small import small

PRIVACY = "privacy={mechanism = 'minibatch', epsilon = 2.0, delta = 1e-5, clip = 1.0, records = 150, norm_bound = 4.0}"


def really_sent(found: Result, c: int, records: int, sigma: float) -> list[tuple[float, float, int]]:
    """(rate, sigma, how often) of every release of client c that the server applied, by the trace and the declared records."""
    updates = found.trace.tables["updates"]
    rounds = updates["round"][updates["client"] == c].tolist()
    counts = Counter(found.prepared.terms.share(i, c) / records for i in rounds)
    return [(rate, sigma, count) for rate, count in counts.items()]


def delta_by_the_oracle(found: Result, epsilon: float) -> float:
    """delta at ``epsilon`` of the client that spends most: losses on a fine grid, composed by powers of their transform."""
    assert found.privacy is not None
    return max(
        delta_of(really_sent(found, c, client["records"], found.privacy["sigma"]), epsilon, adding)
        for c, client in enumerate(found.privacy["clients"])
        for adding in (False, True)
    )


def delta_of(rounds: list[tuple[float, float, int]], epsilon: float, adding: bool, h: float = 5e-4) -> float:
    """E[(1 - e^(epsilon - L))+] over the total loss L of Poisson-sampled Gaussians; each loss goes to the nearest grid point."""
    cells = 2**19
    transform = np.ones(cells // 2 + 1, dtype=np.complex128)
    for rate, sigma, count in rounds:
        x = np.linspace(-9 * sigma, 1 + 9 * sigma, 40_001)
        middle = (x[1:] + x[:-1]) / 2
        loss = np.log1p(rate * np.expm1((2 * middle - 1) / (2 * sigma**2)))
        without, shifted = np.diff(norm.cdf(x / sigma)), np.diff(norm.cdf((x - 1) / sigma))
        weight, loss = (without, -loss) if adding else ((1 - rate) * without + rate * shifted, loss)
        at = np.round(loss / h).astype(int) % cells  # negative losses wrap around, as the transform does
        transform *= np.fft.rfft(np.bincount(at, weight, minlength=cells)) ** count
    mass = np.fft.irfft(transform, cells)
    total = np.arange(cells) * h
    total[cells // 2 :] -= cells * h
    return float(mass[total > epsilon] @ -np.expm1(epsilon - total[total > epsilon]))


@pytest.mark.slow
@settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    mechanism=st.sampled_from(["minibatch", "local"]),
    epsilon=st.floats(0.2, 4.0),
    delta=st.sampled_from([1e-7, 1e-5, 1e-3]),
    sigma=st.none() | st.floats(0.6, 6.0),
    records=st.integers(20, 300),
    rounds=st.integers(1, 6),
    scale=st.floats(1.0, 30.0),
    eta=st.floats(0.001, 0.5),
    clip=st.floats(0.05, 2.0),
    blocks=st.sampled_from([1, 1, 2]),
    weights=st.sampled_from(['"size"', '"uniform"', "[0.7, 0.3]"]),
    coin=st.booleans(),
    seed=st.integers(0, 5),
)
def test_no_accepted_run_spends_more_than_it_states(
    mechanism: str, epsilon: float, delta: float, sigma: float | None, records: int, rounds: int, scale: float, eta: float,
    clip: float, blocks: int, weights: str, coin: bool, seed: int,
) -> None:  # fmt: skip
    noise = f", sigma = {sigma}" if sigma is not None else ""
    try:
        found = simulate(
            small(
                f"privacy={{mechanism = '{mechanism}', epsilon = {epsilon}, delta = {delta}, clip = {clip}, records = {records}, "
                f"norm_bound = 4.0{noise}}}",
                f"schedule.rounds={rounds}",
                f"schedule.sizes={{kind = 'power', scale = {scale}}}",
                f"schedule.steps={{kind = 'constant', eta = {eta}}}",
                f"schedule.blocks={blocks}",
                f"clients.weights={weights}",
                f"clients.shares={'coin' if coin else 'expected'}",
                f"run.seed={seed}",
            )
        )
    except (ConfigError, Refused):
        return  # refused: nothing is claimed and nothing sent
    assert found.privacy is not None and found.privacy["epsilon"] <= epsilon
    assert delta_by_the_oracle(found, epsilon) <= delta * (1 + 1e-3) + 1e-12


@pytest.mark.slow
def test_what_is_reported_is_what_the_oracle_counts_from_the_messages() -> None:
    found = simulate(small(PRIVACY))
    assert found.privacy is not None
    epsilon = found.privacy["epsilon"]
    assert 0.98 * 2.0 <= epsilon <= 2.0  # the noise is the least that keeps what was stated
    assert (
        delta_by_the_oracle(found, epsilon) <= 1e-5 * (1 + 1e-3) and delta_by_the_oracle(found, 0.98 * epsilon) > 1e-5
    )


def test_a_run_that_states_too_little_is_refused_with_the_sigma_that_would_pass() -> None:
    wrong = PRIVACY.replace("epsilon = 2.0", "epsilon = 0.5, sigma = 1.0")
    with pytest.raises(ConfigError, match=r"privacy.epsilon = 0.5 is less than this run costs") as refused:
        simulate(small(wrong))
    enough = str(refused.value).split("sigma = ")[-1].split(" ")[0]
    found = simulate(small(wrong.replace("sigma = 1.0", f"sigma = {enough}")))
    assert found.privacy is not None and found.privacy["epsilon"] <= 0.5


@pytest.mark.slow
def test_a_simulated_epsilon_is_labelled_and_a_run_without_privacy_has_none(tmp_path: Path) -> None:
    private = simulate(small(PRIVACY), out=tmp_path / "private")
    kept: dict[str, Any] = json.loads((tmp_path / "private" / "privacy.json").read_text())
    assert private.privacy is not None and private.privacy["simulated"] is True and kept["simulated"] is True
    assert sum(event["count"] for event in kept["clients"][0]["events"]) == private.rounds
    report = (tmp_path / "private" / "report.html").read_text()
    assert "protects nobody" in report and "Epsilon" in report
    assert simulate(small()).privacy is None


def test_a_rate_above_one_and_steps_within_a_round_are_refused() -> None:
    with pytest.raises(Refused, match="a rate is at most 1: at most 70 slots would pass"):
        simulate(small(PRIVACY.replace("records = 150", "records = 70"), "schedule.sizes.scale=200"))
    with pytest.raises(Refused, match="minibatch takes one step size per round"):
        simulate(small(PRIVACY, "schedule.steps={kind = 'diminishing', eta0 = 0.1, beta = 0.1, per = 'slot'}"))


def test_the_local_mechanism_names_the_largest_step_that_passes() -> None:
    local = PRIVACY.replace("minibatch", "local")
    with pytest.raises(Refused, match=r"eta = (\S+) would pass") as refused:
        simulate(small(local, "schedule.steps={kind = 'constant', eta = 3.0}"))
    largest = str(refused.value).split("eta = ")[-1].split(" ")[0]
    assert float(largest) == pytest.approx(2 / (1.0 * (4.0 - 1.0)), rel=1e-5)
    just_below = math.floor(float(largest) * 1e5) / 1e5
    assert simulate(small(local, f"schedule.steps={{kind = 'constant', eta = {just_below}}}")).privacy is not None


def test_nothing_public_is_counted_from_the_records() -> None:
    """Shares and L2 follow from the declared numbers, not from how the records happen to fall."""
    found = simulate(small(PRIVACY.replace("records = 150", "records = [300, 100]"), "objective.l2='1/N'"))
    assert found.prepared.terms.weights == (0.75, 0.25)
    assert found.prepared.objective.traits.l2 == 1 / 400


def test_the_noise_free_twin_draws_the_same_and_gets_no_epsilon() -> None:
    found = simulate(small(PRIVACY, "evaluate.without_noise=true"))
    assert found.noise_free is not None and found.noise_free["k"] == found.rounds
    assert found.noise_free["loss"] != found.loss and "epsilon" not in found.noise_free
    assert found.as_json()["privacy"]["noise_free_accuracy"] == found.noise_free["accuracy"]


def test_a_sink_tells_the_events_of_the_twin_from_those_of_the_run() -> None:
    heard: list[Event] = []
    found = simulate(small(PRIVACY, "evaluate.without_noise=true"), sinks=[heard.append])
    rows = [row for event in heard if isinstance(event, ModelsMeasured) for row in event.rows]
    assert rows == found.metrics, "a tracker that knows nothing of twins keeps the run's own rows"
    assert [event.moment.k for event in heard if isinstance(event, RoundCompleted)] == list(range(found.rounds + 1))
    twin = [event.event for event in heard if isinstance(event, WithoutNoise)]
    assert [event.moment.k for event in twin if isinstance(event, RoundCompleted)] == list(range(found.rounds + 1))
    last = [row for event in twin if isinstance(event, ModelsMeasured) for row in event.rows][-1]
    assert last == found.noise_free and isinstance(heard[-1], RunEnded)


def test_a_record_that_is_not_finite_is_left_out_and_the_run_goes_on() -> None:
    from crescendo.data import as_records
    from crescendo.data.records import Dataset

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 3)), np.where(rng.random(100) < 0.5, 0.0, 1.0)
    x[7, 1], y[8], y[9] = np.inf, np.nan, 7.0
    data = Dataset("made", as_records(x, y), None, (-1, 1))
    found = simulate(small(PRIVACY), data=data)
    assert np.isfinite(found.model).all()
    assert len(found.prepared.dataset.train) == 97 == sum(len(part) for part in found.prepared.parts)
    kept = np.delete(np.arange(100), [7, 8, 9])
    np.testing.assert_array_equal(found.prepared.dataset.train.y, y[kept])


def test_what_a_class_built_on_ours_claims_is_not_believed() -> None:
    """Its gradient passed the clip a thousand times, and its run had an epsilon."""

    class Louder(Logistic):
        def gradient(self, *asked: Any, **more: Any) -> Floats:
            return 1000 * super().gradient(*asked, **more)

    x = np.random.default_rng(0).normal(size=(120, 2))
    public: dict[str, Any] = {"clients": 2, "gradients": 100, "records": 60, "classes": [0, 1]}
    with pytest.raises(ConfigError, match="Louder has traits, such as that it clips, and a private run trusts"):
        crescendo.simulate(x, x[:, 0] > 0, objective=Louder(2), epsilon=4.0, **public)
    assert crescendo.simulate(x, x[:, 0] > 0, objective=Logistic(2), epsilon=4.0, **public).privacy is not None
    assert crescendo.simulate(x, x[:, 0] > 0, objective=Louder(2), clients=2, gradients=100).privacy is None
