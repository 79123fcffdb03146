"""What must hold to the last bit is found where it does not: noise at the edges of the grid, units, records, stored rounds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Subject, build
from crescendo.audit.worst_cases import exactness
from crescendo.audit.worst_cases.edges import _changed, _probe
from crescendo.audit.worst_cases.exactness import probe_exactness
from crescendo.audit.worst_cases.gone_on import resumed_test
from crescendo.core.client import Client
from crescendo.data.records import Records
from crescendo.privacy.mechanisms import gaussian
from crescendo.privacy.mechanisms.admission import admitted
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.worker import Worker
from tests.audit.mutation.audited_runs import RUNS
from tests.audit.planted_bugs import subject


def of(name: str) -> Subject:
    certificate, objective, features = RUNS[name]()
    return Subject(certificate, objective, 0, features, (0.0, 1.0), "float64", build)


def found(one: Subject, seed: int = 0) -> dict[str, str]:
    faults = Faults()
    with np.errstate(all="ignore"):
        probe_exactness(one, np.random.default_rng(seed), faults)
    return faults.found


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_sound_runs_are_exact(name: str) -> None:
    assert found(of(name)) == {}


def by_the_middle(x: float, scale: float, g: float, word: int, more: Iterator[int]) -> float:
    """No further bit is asked for."""
    sign, cell = 1 if word & 1 else -1, word >> 12
    near = gaussian._Boundaries(*map(Fraction, (sign * x, scale, g)))
    return float(sign * near.guess(max(cell, 1), 53))


@pytest.mark.slow
def test_noise_that_is_rounded_by_its_first_bits_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "_decided", by_the_middle)
    said = [found(of("minibatch"), seed) for seed in range(4)]
    assert any("edge of a step" in one.get("public grid", "") for one in said)


@pytest.mark.slow
def test_gradients_that_are_not_rounded_to_the_unit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from crescendo.objectives.logistic.objective import Logistic

    gradient = Logistic.gradient
    monkeypatch.setattr(Logistic, "gradient", lambda *given, unit=None: gradient(*given))
    assert "certified formula" in found(of("minibatch"))


def keep_the_broken(data: Records, *given: Any) -> Any:
    bounded, sound = admitted(data, *given)
    return bounded, np.ones_like(sound)


def by_the_longest(data: Records, *given: Any) -> Any:
    bounded, sound = admitted(data, *given)
    return Records(bounded.x * (0.5 if len(bounded) > 3 else 1.0), bounded.y), sound


def as_they_are(data: Records, *given: Any) -> Any:
    return data, admitted(data, *given)[1]


@pytest.mark.parametrize("bug", [keep_the_broken, by_the_longest, as_they_are])
def test_records_that_are_admitted_otherwise_are_found(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactness, "admitted", bug)
    faults = Faults()
    with np.errstate(all="ignore"):
        exactness._records(of("minibatch"), np.random.default_rng(0), faults)
    assert "records admitted" in faults.found


class TakesAnyStoredRound(Worker):
    """Rows are not looked at when a round is gone on with."""

    def resume(self, client: Any, state: Any) -> None:
        rows = np.clip(np.asarray(state["rows"], dtype=np.int64), 0, self._records - 1)
        super().resume(client, {**state, "rows": rows})


def test_a_stored_round_of_records_that_are_not_there_is_found() -> None:
    certificate, objective = subject("minibatch")

    def make(subject: Subject, data: Any, rows: Any, source: Any, model: Any) -> Worker:
        mechanism = Private(subject.certificate, subject.me, rows, source)
        return TakesAnyStoredRound(
            subject.certificate.terms, subject.me, model, subject.objective, data, rows, 0, subject.wire, mechanism
        )

    for maker, passes in ((build, True), (make, False)):
        faults = Faults()
        one = Subject(certificate, objective, 0, 6, (0.0, 1.0), "float64", maker)
        resumed_test(one, np.random.default_rng(1), 1, faults)
        assert ("rounds gone on with" not in faults.found) == passes, faults.found


def test_a_client_that_takes_old_news_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "_newest", lambda self: (-1, -1))
    faults = Faults()
    with np.errstate(all="ignore"):
        _probe("the terms as they are", of("minibatch"), np.random.default_rng(0), faults, far=False)
    assert "start models" in faults.found


@pytest.mark.parametrize("rising", ["round", "slot"])
def test_steps_may_rise_where_they_are_certified(rising: Any) -> None:
    assert _changed(of("local"), rising=rising) is not None
    assert (_changed(of("minibatch"), rising=rising) is not None) == (rising == "round")
