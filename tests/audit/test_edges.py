"""Bugs that show late or far out are caught, and what is sound at the same places passes: see `planted_edges`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from crescendo.audit import audit
from crescendo.audit.driving.lead import Faults, Released
from crescendo.audit.driving.literal import Displacement
from crescendo.audit.driving.subject import Draw, Script, Sources, Subject, build
from crescendo.audit.driving.system_bits import tapped
from crescendo.audit.worst_cases.edges import _changed, _probe
from crescendo.audit.worst_cases.gone_on import resumed_test
from crescendo.audit.worst_cases.memory import probe_memory
from crescendo.audit.worst_cases.sources import BITS, SAMPLER, probe_source
from crescendo.core.terms import Terms
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.own import OwnModel
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from tests.audit.planted_edges import EDGES, FEATURES, Edge, LogisticByHand, TakesTheMeanAway


def subject(mechanism: str = "minibatch", l2: float = 1e-4, objective: Any = None) -> Subject:
    terms = Terms(ConstantSizes(50), ConstantSteps(0.1), (1.0,), 12, ahead=1, whole_rounds=True)
    objective = objective or Logistic(FEATURES, l2=l2)
    made = certify(mechanism, terms, objective, clip=0.5, sigma=1.0, records=(2000,), norm_bound=3.0)
    return Subject(made, objective, 0, FEATURES, (0.0, 1.0), "float64", build)


# -- rounding at the edges ---------------------------------------------------------------------------------------------


def test_a_sound_mechanism_passes_at_a_sigma_near_the_largest_that_is_certified() -> None:
    """Models as long as such noise makes them are moved by l2 by far less than their own length, which is what is rounded."""
    large, nobody, rng = _changed(subject(), sigma=9e5), Draw.none(), np.random.default_rng(1)
    assert large is not None
    made, data = large.certificate, large.plain_records(rng, 3)
    for _ in range(10):
        start = rng.normal(size=large.objective.size)
        start *= 0.9 * made.model_bound / np.linalg.norm(start)
        sent = large.without_noise().releases(data, np.arange(3), Script({0: nobody}), (0,), (start,))[0]
        formula = Displacement.of(made, 0, data, start, 0, nobody.members, nobody.tags)
        near = made.sensitivity(0, 0) * made.slack
        released = Released(0, sent, formula, start, nobody, None, None, large.scale(0), near, False)
        assert released.differs() is None


def test_a_sum_of_more_records_than_are_certified_is_cut_as_the_definition_says() -> None:
    """The least sigma leaves room for two records, twice as many as are declared, and the auditor draws 24."""
    terms = Terms(ConstantSizes(1), ConstantSteps(0.4), (1.0,), 6, ahead=1, whole_rounds=True)
    made = certify("minibatch", terms, Logistic(FEATURES), clip=0.01, sigma=4e-9, records=(1,), norm_bound=1.01)
    one, faults = Subject(made, made.objective, 0, FEATURES, (0.0, 1.0), "float64", build), Faults()
    for seed in range(4):
        _probe("a small sigma", one, np.random.default_rng(seed), faults, far=False)
    assert not faults.found


def test_a_departure_is_said_with_all_its_digits() -> None:
    large, faults = _changed(subject(), sigma=9e5), Faults()
    assert large is not None
    original = Displacement.of

    def off(*given: Any) -> Displacement:
        right = original(*given)
        return Displacement(right.hidden, right.public * (1 + 1e-9), right.rounding)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Displacement, "of", off)
        for seed in range(4):
            _probe("a large sigma", large, np.random.default_rng(seed), faults, far=False)
    said = faults.found["edges"]
    sent, due = (said.split(before)[1].split()[0].rstrip(",") for before in ("noise off: coordinate", "makes it"))
    assert "rounding explains" in said and sent != due and "." in due


# -- planted bugs ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.name)
def test_a_bug_at_an_edge_is_caught(edge: Edge) -> None:
    """Sources by themselves, and one of them by a whole audit: a short one does not look at them."""
    certificate, objective, given = edge.planted(seed=2)
    if edge.system is not SystemSource and edge.name != "32-bit seed":
        assert edge.by in probed(given["sources"]["system"])
        return
    tries = 100 if edge.system is not SystemSource else 24
    asked = {"runs": 4, "tries": tries, "seed": 2, "cost": lambda events: 0.0, "outbox": None}
    report = audit(certificate, objective, claimed=1.0, delta=1e-5, **asked, **given)  # type: ignore[arg-type]
    assert edge.by in {finding.kind for finding in report.findings}, report.findings


# -- what is sound passes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["minibatch", "local", "batch-clip"])
def test_a_round_that_is_gone_on_with_as_it_should_be_passes(mechanism: str) -> None:
    faults = Faults()
    resumed_test(subject(mechanism), np.random.default_rng(1), 20, faults)
    assert not faults.found


class ReadsAhead(SystemSource):
    """Reads 64 kB at a time, and hands each word out once."""

    def __init__(self) -> None:
        self._pool, self._at = np.empty(0, dtype=np.uint64), 0

    def words(self, i: int, size: int) -> Any:
        parts = []
        while size:
            if self._at == len(self._pool):
                self._pool, self._at = np.frombuffer(os.urandom(1 << 16), dtype=np.uint64), 0
            parts.append(self._pool[self._at : self._at + size])
            self._at, size = self._at + len(parts[-1]), size - len(parts[-1])
        return np.concatenate(parts)


class SmallerSeed(SeededSource):
    """The upper half of a seed makes no difference."""

    def __init__(self, seed: int, client: int) -> None:
        super().__init__(seed % 2**64, client)


class Computed(SystemSource):
    """Reads bits for every number, and hands out others."""

    def words(self, i: int, size: int) -> Any:
        return super().words(i, size) * np.uint64(3)


def probed(sources: Sources) -> dict[str, str]:
    faults = Faults()
    probe_source(subject(), "planted", sources, np.random.default_rng(3), faults)
    return faults.found


@pytest.mark.slow
def test_sources_that_are_sound_pass() -> None:
    for sources in (SeededSource, lambda seed, client: SystemSource(), lambda seed, client: ReadsAhead()):
        assert not probed(sources)


@pytest.mark.slow
def test_bits_that_are_not_used_or_not_the_system_s_are_seen() -> None:
    assert BITS in probed(SmallerSeed)
    assert BITS in probed(lambda seed, client: Computed())


class LeavesOutTheLast(SystemSource):
    """The last record of a chunk is never drawn."""

    def members(self, i: int, records: int, rate: float) -> Any:
        found = super().members(i, records, rate)
        return found[found % 2**20 != 2**20 - 1]


class DrawsAtTheRate(SystemSource):
    """A number that is equal to the rate draws."""

    def members(self, i: int, records: int, rate: float) -> Any:
        return super().members(i, records, rate + 2.0**-53)


@pytest.mark.slow
@pytest.mark.parametrize("source", [LeavesOutTheLast, DrawsAtTheRate])
def test_one_record_and_one_number_make_a_difference(source: type[SystemSource]) -> None:
    assert SAMPLER in probed(lambda seed, client: source())


def test_the_system_s_bits_are_tapped_and_let_go() -> None:
    import secrets

    before = os.urandom
    with tapped() as taken:
        assert os.urandom(16) in taken.parts and len(secrets.token_bytes(8)) == 8
    assert taken.size == 24 and len(taken.words) == 3 and os.urandom is before
    with tapped(lambda size: b"x" * size):
        assert os.urandom(3) == b"xxx" and secrets.token_bytes(2) == b"xx"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["minibatch", "batch-clip"])
def test_a_model_that_keeps_nothing_passes(mechanism: str) -> None:
    faults = Faults()
    own = OwnModel(LogisticByHand(), made_up_records(FEATURES, 2))
    probe_memory(subject(mechanism, objective=own), np.random.default_rng(1), faults)
    assert not faults.found


@pytest.mark.slow
def test_a_model_that_remembers_passes_once_it_is_isolated() -> None:
    faults, own = Faults(), OwnModel(TakesTheMeanAway(), made_up_records(FEATURES, 2))
    probe_memory(subject(objective=own), np.random.default_rng(1), faults)
    assert not faults.found


def test_a_user_s_model_with_l2_is_audited_at_the_edges_too() -> None:
    """Its l2 is its own: there is no variant with another."""

    class Shrinks(LogisticByHand):
        l2 = 0.1

    own = OwnModel(Shrinks(), made_up_records(FEATURES, 2))
    assert _changed(subject(objective=own), l2=0.2) is None
