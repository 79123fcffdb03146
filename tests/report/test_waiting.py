"""Where clients waited, the report names the setting that made them wait, and the change that it names ends it."""

from __future__ import annotations

from typing import Any

import pytest

import crescendo
from crescendo.report.lanes import Lanes
from crescendo.report.page import page
from crescendo.report.story import Story
from crescendo.report.waiting import NOTICEABLE, why_waiting
from tests.config.small import SMALL

SPEEDS = [1.0, 2.0, 4.0]


def told(**changes: Any) -> tuple[float, str | None]:
    """The share of waiting, and what is said of it."""
    timing = {"preset": "lock-step", **changes.pop("timing", {})}
    schedule = {
        **SMALL["schedule"],
        "rounds": 12,
        "sizes": {"kind": "power", "scale": 30},
        **changes.pop("schedule", {}),
    }
    result = crescendo.simulate({**SMALL, "clients": {"count": 3, **changes}, "schedule": schedule, "timing": timing})
    waiting = Lanes.of(result.trace.tables, result.prepared.names).waiting
    return waiting, why_waiting(result, waiting)


def test_a_run_that_hardly_waits_is_told_nothing() -> None:
    assert told() == (0.0, None)


def test_equal_shares_of_unequal_clients_are_named_and_the_weights_that_are_named_end_the_waiting() -> None:
    speeds = {"speed": {"kind": "list", "values": SPEEDS}}
    waiting, why = told(weights="uniform", timing=speeds)
    assert waiting > 0.3 and why is not None
    assert "client 0 needed 4 times as long for its part of a round as client 2" in why
    assert "clients.weights = [1, 2, 4]" in why
    mended, nothing = told(weights=[1.0, 2.0, 4.0], timing=speeds)
    assert mended < NOTICEABLE and nothing is None


def test_late_messages_are_named_and_the_rounds_that_are_named_end_the_waiting() -> None:
    late = {"latency": {"kind": "constant", "value": 40.0}}
    sizes = {"sizes": {"kind": "constant", "size": 90}}
    waiting, why = told(weights="uniform", timing=late, schedule={**sizes, "wait": {"rounds": 1}})
    assert waiting > 0.2 and why is not None and "waited for messages" in why
    ahead = int(why.partition("schedule.wait.rounds = ")[2].partition(",")[0])
    mended, _ = told(weights="uniform", timing=late, schedule={**sizes, "wait": {"rounds": ahead}})
    assert mended < waiting / 2


def test_rounds_in_step_are_named() -> None:
    _, why = told(timing={"latency": {"kind": "constant", "value": 40.0}}, schedule={"wait": {"rounds": 0}})
    assert why is not None and "schedule.wait.rounds = 0 makes every round wait for all clients" in why


@pytest.mark.slow
def test_the_page_says_why_beside_the_timeline() -> None:
    speeds = {"preset": "lock-step", "speed": {"kind": "list", "values": [1.0, 4.0]}}
    longer = {"clients": {"count": 2, "weights": "uniform"}, "schedule": {**SMALL["schedule"], "rounds": 12}}
    result = crescendo.simulate({**SMALL, **longer, "timing": speeds})
    text = page(Story.of(result))
    assert "Clients waited because shares do not follow speeds" in text and "why: see the timeline" in text
