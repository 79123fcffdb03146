"""What a program and a notebook see of plans, schedules, certificates, comparisons and sweeps: a line, a table, a plot."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.errors import CrescendoError
from tests.config.small import small

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
X[7] = 123456.789  # a record that would be known anywhere


@cache
def seen(kind: str) -> Any:
    x, y = X, X[:, 0] > X[:, 1]
    public: dict[str, Any] = {"records": 90, "clients": 2, "gradients": 300}
    match kind:
        case "Plan":
            return crescendo.plan(1, 1e-5, 1000, 2000, rounds=40, compare=False)
        case "CertifiedRun":
            return crescendo.schedule(x, y, epsilon=1.0, **public)
        case "Guarantee":
            return crescendo.schedule(x, y, epsilon=1.0, **public).privacy
        case "ScheduleCertificate":
            return crescendo.schedule(x, y, clients=2, gradients=300).certificate
        case "Comparison":
            return crescendo.compare(small(), ["fedavg"], seeds=2)
        case "Sweep":
            return crescendo.sweep(small(), ["clients.count=2,3", "run.seed=0..1"])
        case "Result":
            return crescendo.simulate(x, y, epsilon=1.0, **public)
    raise AssertionError(kind)


KINDS = ["Plan", "CertifiedRun", "Guarantee", "ScheduleCertificate", "Comparison", "Sweep", "Result"]


class Balanced(HTMLParser):
    """Every tag that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_has_a_line_a_summary_and_a_plain_table_and_shows_no_record(kind: str) -> None:
    found = seen(kind)
    assert repr(found).startswith(f"{kind}(") and "\n" not in repr(found) and len(repr(found)) < 200
    page = found._repr_html_()
    Balanced().feed(page)
    assert "color" not in page and "<script" not in page
    for text in (repr(found), found.summary(), page):
        assert "123456" not in text and "array(" not in text and "object at 0x" not in text
        assert re.search(r"(?<![\d\w.])\.\d", text) is None, "decimals have their zero"
    assert len(found.summary().splitlines()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Plan", "CertifiedRun", "Comparison", "Sweep", "Result"])
def test_each_has_a_plot_of_its_own_numbers(kind: str) -> None:
    found = seen(kind)
    lines = found.plot().data
    if kind in ("Plan", "CertifiedRun"):
        assert list(lines[0].y) == list(found.per_round if kind == "Plan" else found.sizes)
        assert len(lines[0].y) == found.rounds
    elif kind == "Comparison":
        assert [line.name for line in lines] == ["crescendo", "fedavg"]
        mean = found.ours.mean("accuracy")
        assert lines[0].y[-1] == pytest.approx(mean.mean)
    elif kind == "Sweep":
        assert list(lines[0].x) == ["clients.count=2", "clients.count=3"]
    else:
        assert list(lines[0].y) == [row["accuracy"] for row in found.metrics]


@pytest.mark.slow
def test_a_schedule_is_what_the_run_would_follow() -> None:
    asked: dict[str, Any] = {"clients": 3, "gradients": 500, "seed": 2}
    schedule = crescendo.schedule(X, X[:, 0] > 0, **asked)
    result = crescendo.simulate(X, X[:, 0] > 0, **asked)
    assert schedule.config == result.config and schedule.rounds == result.rounds
    assert sum(schedule.sizes) == result.gradients and schedule.privacy is None
    with pytest.raises(CrescendoError, match=r"crescendo\.schedule has no keyword"):
        wrong: Any = crescendo.schedule
        wrong(X, X[:, 0] > 0, client=3)


@pytest.mark.slow
def test_a_sweep_has_a_row_for_each_run_and_a_comparison_says_what_can_be_told() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    rows = seen("Sweep").history
    assert isinstance(rows, pandas.DataFrame) and len(rows) == 4 and {"clients.count", "accuracy"} <= set(rows.columns)
    assert "against fedavg" in seen("Comparison").summary()
    with pytest.raises(CrescendoError, match="not 'time'"):
        seen("Comparison").plot(against="time")


def test_a_summary_says_what_was_trained_and_what_became_of_a_tables_columns() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.DataFrame(
        {"id": [f"P{i}" for i in range(60)], "age": np.arange(60.0) % 17, "stay": np.arange(60) % 7}
    )
    found = crescendo.simulate(frame, "stay", clients=2, rounds=2)
    for text in (found.summary(), found._repr_html_()):
        assert "softmax" in text and "on 1 feature, for 7 classes" in text
        assert "left out: id (text that never repeats)" in text
