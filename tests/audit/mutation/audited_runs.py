"""The small runs that mutants are audited in: every mechanism, masks, means, clips by layer, a model of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crescendo.core.terms import Terms
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify

Run = tuple[Certificate, Any, int]  # and the features of a record


def _terms(slots: int = 4, clients: int = 1, step: Any = None, **options: Any) -> Terms:
    from crescendo.schedules.sizes import ConstantSizes
    from crescendo.schedules.steps import ConstantSteps

    weights = (1 / clients,) * clients
    steps = ConstantSteps(0.8) if step is None else step
    return Terms(ConstantSizes(slots * clients), steps, weights, 12, ahead=1, whole_rounds=True, **options)


def _logistic(
    mechanism: str,
    features: int = 6,
    l2: float = 0.1,
    clients: int = 1,
    sigma: Any = 1.0,
    number: int = 20,
    bound: float | None = 3.0,
    **terms: Any,
) -> Run:
    from crescendo.objectives.logistic.objective import Logistic

    objective, made = Logistic(features, l2=l2), _terms(clients=clients, **terms)
    records = (number,) * clients
    return (
        certify(mechanism, made, objective, clip=0.5, sigma=sigma, records=records, norm_bound=bound),
        objective,
        features,
    )


def _falling() -> Any:
    from crescendo.schedules.steps import DiminishingSteps

    return DiminishingSteps(0.5, 0.3, per="slot")


def _own(mechanism: str, clip: Any) -> Run:
    from crescendo.federation.objective_terms import made_up_records
    from crescendo.objectives.own import OwnModel
    from tests.audit.planted_edges import FEATURES, LogisticByHand

    objective = OwnModel(LogisticByHand(), made_up_records(FEATURES, 2))
    return certify(mechanism, _terms(), objective, clip=clip, sigma=1.0, records=(20,)), objective, FEATURES


RUNS: dict[str, Callable[[], Run]] = {
    "minibatch": lambda: _logistic("minibatch"),
    "local": lambda: _logistic("local"),
    "batch-clip": lambda: _logistic("batch-clip"),
    "minibatch, masks, mean of three": lambda: _logistic(
        "minibatch", 12, clients=3, blocks=2, combine="mean", sigma=((6, 2.0), (6, 1.0))
    ),
    "local, masks, falling steps": lambda: _logistic("local", 12, l2=0.0, blocks=3, step=_falling()),
    "minibatch, many records of any length": lambda: _logistic("minibatch", 9, slots=20, number=4000, bound=None),
    "local, many records": lambda: _logistic("local", 9, slots=20, number=4000),
    "own model, clips by layer": lambda: _own("minibatch", [[2, 0.3], [4, 0.4]]),
    "own model, batch-clip": lambda: _own("batch-clip", 0.5),
}
DELTA = 1e-5


def audited(name: str, runs: int, tries: int) -> list[str]:
    """The checks that fail in this run; a sound program has none."""
    from crescendo.audit import audit
    from crescendo_dp.accounting.epsilon import account

    certificate, objective, features = RUNS[name]()
    claimed = account(certificate.events(0), certificate.usual_delta(DELTA)).epsilon
    found = audit(
        certificate,
        objective,
        claimed=claimed,
        delta=DELTA,
        me=0,
        features=features,
        runs=runs,
        tries=tries,
        threshold_runs=runs,
        seed=5,
    )
    return list(dict.fromkeys(finding.kind for finding in found.findings))
