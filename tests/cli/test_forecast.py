"""What takes hours is announced once, by its own first speed; what takes minutes is not. Time is a number that a test owns."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from crescendo.cli import forecast as module
from crescendo.cli.forecast import Forecast, RunForecast
from crescendo.runs.simulate import simulate
from tests.config.small import SMALL


def clock(step: float) -> Callable[[], float]:
    """Each look at it is ``step`` seconds after the one before."""
    ticks = itertools.count()
    return lambda: next(ticks) * step


def heard(total: float, step: float, reports: int = 6) -> list[str]:
    said: list[str] = []
    forecast = Forecast(said.append, "this run", "its first rounds", clock(step))
    for done in range(1, reports + 1):
        forecast.heard(done, total)
    return said


def test_what_takes_long_is_said_once_and_early() -> None:
    assert heard(40_000, step=3.0) == [
        "this run will take about 33 hours more at the speed of its first rounds; Ctrl-C stops it"
    ]


@pytest.mark.parametrize(("total", "step"), [(100, 3.0), (40_000, 0.01)])
def test_what_takes_minutes_or_was_measured_too_shortly_is_not_announced(total: float, step: float) -> None:
    assert heard(total, step) == []


def test_compiling_before_the_first_report_is_no_part_of_the_speed() -> None:
    said: list[str] = []
    times = iter([500.0, 502.0, 504.0])  # the first report came after 500 seconds
    forecast = Forecast(said.append, "this run", "its first rounds", lambda: next(times))
    for done in (1, 2, 3):
        forecast.heard(done, 100)
    assert said == []


def test_a_run_is_forecast_by_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(module, "LONG", 100.0)
    forecast = RunForecast(said.append, "this run", "its first rounds", clock(1000.0))
    simulate(SMALL, sinks=[forecast])
    assert len(said) == 1 and said[0].startswith("this run will take about ")
