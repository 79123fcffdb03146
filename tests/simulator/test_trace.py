"""Traces: they tell the truth, they can be read back, and their check of the theorem is the literal one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.errors import DataError
from crescendo.simulator.consistency import Inconsistent, check
from crescendo.simulator.timing import Constant, LogNormal, Timing
from crescendo.simulator.trace import Trace
from tests.core.properties import for_all, same
from tests.core.strategies import make_terms
from tests.simulator import federations as f
from tests.simulator.federations import Case, Parts, simulate

PARTS = Parts()
TWO = make_terms((4, 6, 8, 8), (0.5, 0.5), {"ahead": 1})
CASE = Case(TWO, Timing((1.0, 1.7), (0.0, 0.2), LogNormal(0.5, 1.0)), 1)


@pytest.mark.slow
def test_a_trace_tells_what_the_models_show() -> None:
    for_all(f.cases(), partial(f.tells_the_truth, PARTS), 40)


@pytest.mark.slow
def test_the_theorem_holds_on_recorded_runs_by_both_checks() -> None:
    for_all(f.cases(), partial(f.is_consistent, PARTS), 40)


@pytest.mark.slow
def test_the_check_refuses_exactly_what_the_literal_check_refuses() -> None:
    for_all(f.cases(), partial(f.finds_what_the_literal_check_finds, check), 40)


def altered(trace: Trace, table: str, **columns: Any) -> Trace:
    tables = {name: dict(values) for name, values in trace.tables.items()}
    tables[table].update(columns)
    return Trace(**{**vars(trace), "tables": tables})


def test_a_gradient_on_a_model_that_is_too_old_is_named() -> None:
    trace = simulate(PARTS, CASE).trace
    basis = trace.tables["segments"]["basis"].copy()
    basis[-1] = -1
    with pytest.raises(Inconsistent, match=r"gradient labelled \d+ .*without the update labelled"):
        check(altered(trace, "segments", basis=basis), TWO)


def test_an_update_that_came_after_its_broadcast_is_noticed() -> None:
    trace = simulate(PARTS, CASE).trace
    fewer = np.maximum(trace.tables["broadcasts"]["applied"] - 1, 0)
    with pytest.raises(Inconsistent):
        check(altered(trace, "broadcasts", applied=fewer), TWO)


def test_a_trace_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    trace = simulate(PARTS, CASE).trace
    trace.save(tmp_path / "trace.npz")
    again = Trace.load(tmp_path / "trace.npz")
    assert again.counts() == trace.counts() and same(again.model, trace.model) and same(again.tables, trace.tables)
    assert check(again, TWO) == TWO.before(4)


def test_a_broken_trace_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    simulate(PARTS, CASE).trace.save(tmp_path / "trace.npz")
    whole = (tmp_path / "trace.npz").read_bytes()
    for name, content in (("cut", whole[: len(whole) // 2]), ("text", b"not a trace"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as caught:
            Trace.load(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError):
        Trace.load(tmp_path / "missing")
    np.savez(tmp_path / "other.npz", model=np.zeros(3))
    with pytest.raises(DataError):
        Trace.load(tmp_path / "other.npz")


def test_the_tables_fit_together() -> None:
    trace = simulate(PARTS, Case(TWO, Timing((1.0, 1.7), (0.0, 0.2), Constant(0.3)), 1)).trace
    updates, broadcasts = trace.tables["updates"], trace.tables["broadcasts"]
    assert len(updates["round"]) == 8 and broadcasts["k"].tolist()[-1] == 4 and broadcasts["applied"].tolist()[-1] == 8
    assert np.allclose(updates["applied_at"] - updates["sent_at"], 0.3)
    segments = trace.tables["segments"]
    assert (segments["last"] - segments["first"]).sum() == trace.gradients == TWO.before(4)
    assert (segments["ended_at"] > segments["began_at"]).all()
