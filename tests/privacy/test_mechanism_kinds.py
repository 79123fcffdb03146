"""A mechanism of one's own, whose noise is no Gaussian, is one class, one event and one call: the rest follows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.reference import reference
from crescendo.config.to_terms import terms_text
from crescendo.core.arrays import Floats, Ints, Vector
from crescendo.errors import ConfigError, Refused, UsageError
from crescendo.federation.agreement import build_terms
from crescendo.federation.policy import Policy
from crescendo.objectives.base import Stepper
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Mechanism, Private
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS, certify, register
from crescendo.privacy.mechanisms.minibatch import FrozenStepper, Minibatch
from crescendo.privacy.mechanisms.noise import Source
from crescendo.runs.simulate import simulate
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.tables import one_of
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.event_kinds import fewer
from crescendo_dp.events import Event, PoissonGaussian, from_json, tally, to_json
from crescendo_dp.interchange import WRITERS
from crescendo_dp.ledger.book import Book
from crescendo_dp.ledger.budget import Budget
from tests.config.small import small
from tests.conformance.cases import PRIVATE, case


class SampledLaplace(Event):
    """Laplace noise of scale sigma times the most that one record moves the sum of the coordinates' absolute values."""

    __slots__ = ()

    def log_moments(self, orders: Vector) -> Vector:
        """Pure epsilon of one draw, amplified by sampling; D_a <= min(epsilon, a epsilon^2 / 2) (Bun, Steinke 2016)."""
        if self.sigma == 0:
            return np.where(orders > 1, math.inf, 0.0)
        epsilon = math.log1p(self.rate * math.expm1(1 / self.sigma))
        return (orders - 1) * np.minimum(epsilon, orders * epsilon**2 / 2)


class LaplaceClient(Private):
    def release(self, i: int, start: Floats, stepper: Stepper) -> Floats:
        assert isinstance(stepper, FrozenStepper)
        hidden = stepper.gradients()
        scale = self._certificate.noise_scale(i, self._me) * math.sqrt(len(hidden))
        uniform = (self._source.words(i, len(hidden)) >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
        noise = -scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform) + 2.0**-53)
        return np.asarray(hidden + noise + stepper.decay())


class Laplace(Minibatch):
    """What minibatch is, but for its noise: the L1 length of a clipped gradient is at most sqrt(size) C."""

    name = "laplace"
    event = SampledLaplace

    @classmethod
    def client(cls, certificate: Certificate, me: int, rows: Ints, source: Source) -> Mechanism:
        return LaplaceClient(certificate, me, rows, source)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(Laplace)
    yield
    del MECHANISMS["laplace"]


LAPLACE = {**PRIVATE, "mechanism": "laplace", "sigma": 8.0}
EVENT = SampledLaplace(0.1, 4.0)


def private(*changes: str) -> Any:
    given = ["privacy.mechanism=laplace", "privacy.delta=1e-5", "privacy.clip=1", "privacy.records=1000"]
    return small(*given, *changes)


def test_a_registered_mechanism_runs_from_a_run_file_and_is_charged_by_its_own_event() -> None:
    result = simulate(private("privacy.sigma=8"))
    found = result.prepared.privacy
    assert isinstance(found, Guarantee) and found.certificate.mechanism == "laplace"
    assert {type(event) for event in found.certificate.events(0)} == {SampledLaplace}
    spent = found.spent[0]
    assert spent.method == "rdp" and 0 < spent.epsilon < math.inf and "SampledLaplace" in spent.why
    assert np.isfinite(result.model).all()
    assert (result.model != simulate(private("privacy.sigma=8", "privacy.mechanism=minibatch")).model).any()


def test_the_least_noise_for_an_epsilon_is_found_by_its_own_event() -> None:
    found = simulate(private("privacy.epsilon=2")).prepared.privacy
    assert isinstance(found, Guarantee) and found.epsilon <= 2
    less = [SampledLaplace(event.rate, 0.99 * event.sigma) for event in found.certificate.events(0)]
    assert account(less, 1e-5).epsilon > 2


def test_words_of_errors_and_reference_name_it() -> None:
    words = one_of("none", *MECHANISMS)
    sentence = f'privacy.mechanism must be {words}, not "laplac"; did you mean "laplace"?'
    with pytest.raises(ConfigError) as caught:
        small("privacy.mechanism=laplac")
    assert str(caught.value) == sentence
    assert f"| `privacy.mechanism` | {words} |" in reference()
    with pytest.raises(ConfigError, match=r'privacy.clip is missing; privacy.mechanism = "laplace" needs it'):
        small("privacy.mechanism=laplace", "privacy.delta=1e-5")


def test_a_policy_may_allow_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('mechanisms = ["laplace"]\nepsilon = 1\ndelta = 1e-5\n')
    policy = Policy.read(path)
    policy.check_terms(build_terms(terms_text(read(case(privacy=LAPLACE)))))
    with pytest.raises(Refused, match='mechanism = "minibatch"'):
        policy.check_terms(build_terms(terms_text(read(case(privacy={**LAPLACE, "mechanism": "minibatch"})))))
    path.write_text('mechanisms = ["laplac"]\n')
    with pytest.raises(ConfigError, match=r'mechanisms must be a list of "none", "minibatch", .* and "laplace"'):
        Policy.read(path)
    assert Policy(mechanisms=("none",)).mechanisms == ("none",)


def test_both_sides_of_a_federation_certify_it_from_the_terms_and_one_without_it_refuses() -> None:
    text = terms_text(read(case(privacy=LAPLACE)))
    made = build_terms(text)
    assert made.certificate is not None and {type(event) for event in made.plan(0) if event} == {SampledLaplace}
    del MECHANISMS["laplace"]
    with pytest.raises(Refused, match=r'privacy.mechanism must be .*, not "laplace"'):
        build_terms(text)
    register(Laplace)


def test_its_plan_of_very_many_kinds_is_its_event_of_every_round_and_is_priced_by_its_own_event() -> None:
    asked = case(schedule={"sizes": {"kind": "power", "scale": 9, "power": 1.0}}, privacy={**LAPLACE, "records": 10**6})
    asked["schedule"]["rounds"] = 700
    made = build_terms(terms_text(read(asked)))
    assert made.certificate is not None
    plan = made.plan(1)
    assert list(plan) == [made.certificate.event(i, 1) for i in range(700)]
    assert len(plan.counted) > 512 and plan.priced == fewer(plan.counted)
    assert {type(event) for event, _ in plan.priced} == {SampledLaplace}


def test_a_ledger_keeps_its_events_over_a_restart(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger", Budget(5.0, 1e-5)) as ledger:
        ledger.sign("f", "9f3c", "me", (EVENT, None, EVENT), delta=1e-6)
        ledger.release("f", 0, EVENT, b"bytes")
        before = ledger.summary()
    with open_ledger(tmp_path / "ledger") as again:
        assert again.summary() == before
        assert again.charged() == ((EVENT, 1),)


def test_events_of_several_types_are_counted_saved_and_priced_together() -> None:
    mixed = [EVENT, PoissonGaussian(0.1, 4.0), EVENT]
    counted = tally(mixed)
    assert counted == ((PoissonGaussian(0.1, 4.0), 1), (EVENT, 2))
    assert from_json(json.loads(json.dumps(to_json(mixed)))) == counted
    alone = account([EVENT, EVENT], 1e-5, quick=True).epsilon
    assert alone < account(mixed, 1e-5).epsilon < math.inf
    many = tally(SampledLaplace(i / 2000, 1.0) for i in range(1, 2000))
    assert {type(event) for event, _ in fewer(many)} == {SampledLaplace} and len(fewer(many)) <= 512
    book = Book(Budget(5.0, 1e-5))
    book.sign(book.quote("f", "9f3c", "me", tuple(mixed), delta=1e-6))
    assert 0 < book.promised().epsilon <= 5.0


def test_what_nobody_knows_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="no event called 'Cauchy'"):
        from_json([{"rate": 0.1, "sigma": 1.0, "event": "Cauchy"}])
    with pytest.raises(UsageError, match="only Gaussians can be written"):
        WRITERS["opacus"]([EVENT])
    with pytest.raises(UsageError, match="already"):
        register(Laplace)
    with pytest.raises(UsageError, match=r"choose minibatch or .* or laplace"):
        certify("cauchy", build_terms(terms_text(read(case()))).terms, Any, clip=1.0, sigma=1.0, records=(1,))  # type: ignore[arg-type]
