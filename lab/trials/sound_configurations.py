"""Random sound configurations for the audit: every mechanism, objective and wire, up to the limits of certification.

Each seed draws its own configuration. A refused certificate is drawn again, since the audit is about certified runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.terms import Terms
from crescendo.core.vectors import WIRES
from crescendo.data.labels import Classes
from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.federation.objective_terms import made_up_records
from crescendo.objectives.base import Objective
from crescendo.objectives.least_squares.least_squares_regression import LeastSquares
from crescendo.objectives.logistic.objective import Logistic
from crescendo.objectives.own import OwnModel
from crescendo.objectives.softmax.softmax_regression import Softmax
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.sizes import ConstantSizes, PowerSizes, Sizes
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps

_NETS = 0.02  # of the configurations have a torch or JAX net, whose audit takes many times as long
_MOST_TRIES = 400  # draws of a configuration before the last resort
_MOST_FEATURES = {"own": 20, "torch": 8, "jax": 8}
_LABEL_RANGE = (-2.0, 3.0)

_Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Configuration:
    """A certified run, and the shape of its records."""

    certificate: Certificate
    objective: Objective
    features: int
    labels: tuple[float, ...]
    wire: str
    says: dict[str, Any]  # the same in words and numbers, for the record


class Tanh:
    """A user's own model in numpy: two tanh units in front of a logistic loss."""

    def __init__(self, features: int, l2: float = 0.0) -> None:
        self.features, self.l2 = features, l2

    def initial(self, rng: _Rng) -> Any:
        return 0.1 * rng.standard_normal(2 * self.features + 2)

    def gradient(self, w: Any, data: Records, rows: Any) -> Any:
        total = np.zeros(len(w))
        for row in rows:
            x, y = np.asarray(data.x[row], dtype=np.float64), float(data.y[row])
            hidden = np.tanh(self._units(w) @ x)
            slope = 1 / (1 + math.exp(-float(np.clip(w[-2:] @ hidden, -500, 500)))) - y
            back = slope * w[-2:] * (1 - hidden**2)
            total += np.concatenate([np.outer(back, x).ravel(), slope * hidden])
        return total

    def evaluate(self, w: Any, data: Records) -> dict[str, float]:
        margins = np.tanh(np.asarray(data.x) @ self._units(w).T) @ w[-2:]
        return {"loss": float(np.mean(np.logaddexp(0, margins) - data.y * margins)), "accuracy": 0.5}

    def _units(self, w: Any) -> Any:
        return w[:-2].reshape(2, self.features)


def configuration(seed: int) -> Configuration:
    """Return the configuration of this seed: the first certified one of its draws."""
    rng = np.random.Generator(np.random.Philox([seed, 24]))
    for _ in range(_MOST_TRIES):
        try:
            return _drawn(rng)
        except (CrescendoError, OverflowError, ZeroDivisionError):
            continue
    raise RuntimeError(f"no draw of seed {seed} was certified")


def _drawn(rng: _Rng) -> Configuration:
    mechanism = str(rng.choice(["minibatch", "local", "batch-clip"]))
    features = int(math.exp(rng.uniform(0, math.log(200)))) if rng.random() < 0.8 else int(rng.integers(1, 4))
    l2 = 0.0 if rng.random() < 0.3 else float(10 ** rng.uniform(-6, 0.5))
    name, make = _objective(mechanism, features, l2, rng)
    features = min(features, _MOST_FEATURES.get(name, features))
    objective, labels = make(features)
    clients = int(rng.choice([1, 1, 2, 5]))
    records = _records(clients, rng)
    me = int(np.argmin(records))
    slots = _slots(records[me], rng)
    rounds = int(math.exp(rng.uniform(0, math.log(300)))) if rng.random() < 0.9 else int(rng.integers(1, 5000))
    terms = Terms(
        _sizes(slots * clients, rounds, rng),
        _steps(rng),
        tuple([1 / clients] * clients),
        rounds,
        ahead=int(rng.integers(0, 3)),
        whole_rounds=True,
        blocks=int(rng.choice([1, 1, 1, min(2, objective.size), min(5, objective.size), objective.size])),
        shares_by="coin" if rng.random() < 0.2 else "expected",
        seed=int(rng.integers(2**40)),
        combine="mean" if rng.random() < 0.2 else "sum",
    )
    norm_bound = None
    if mechanism == "local" or rng.random() < 0.7:
        norm_bound = float(math.sqrt(1 + 10 ** rng.uniform(-2, 2)))
    clip = _clip(mechanism, objective, rng)
    certificate = certify(
        mechanism, terms, objective, clip=clip, sigma=_sigma(rounds, rng), records=records, norm_bound=norm_bound
    )
    if any(not any(terms.share(i, c) for i in range(min(rounds, 2000))) for c in range(clients)):
        raise CrescendoError("a client has no share")
    wire = str(rng.choice(["float32", "float64", *WIRES]))
    says = {
        "mechanism": mechanism,
        "objective": name,
        "features": features,
        "size": objective.size,
        "l2": objective.traits.l2,
        "wire": wire,
        "records": records,
        "norm_bound": norm_bound,
        "clip": repr(clip),
        "sigma": certificate.sigma.to_json(),
        "terms": repr(terms),
    }
    return Configuration(certificate, objective, features, labels, wire, says)


def _objective(mechanism: str, features: int, l2: float, rng: _Rng) -> tuple[str, Callable[[int], Any]]:
    others = ["logistic"] if mechanism == "local" else ["softmax", "own"]
    kinds = ["logistic", "least squares", *others]
    name = str(rng.choice(kinds))
    if mechanism != "local" and rng.random() < _NETS:
        name = str(rng.choice(["torch", "jax"]))
    classes = int(rng.integers(2, 6))
    makers: dict[str, Callable[[int], Any]] = {
        "logistic": lambda f: (Logistic(f, l2=l2), (0.0, 1.0)),
        "softmax": lambda f: (Softmax(f, l2=l2, classes=classes), Classes.values_of(classes)),
        "least squares": lambda f: (LeastSquares(f, l2=l2, label_range=_LABEL_RANGE), _LABEL_RANGE),
        "own": lambda f: (OwnModel(Tanh(f, l2), made_up_records(f, 2)), (0.0, 1.0)),
        "torch": lambda f: (OwnModel(_torch(f, classes), made_up_records(f, classes)), Classes.values_of(classes)),
        "jax": lambda f: (OwnModel(_jax(f), made_up_records(f, 2)), (0.0, 1.0)),
    }
    return name, makers[name]


def _torch(features: int, classes: int) -> Any:
    from torch import nn

    import crescendo

    return crescendo.torch.model(lambda: nn.Sequential(nn.Linear(features, 3), nn.Tanh(), nn.Linear(3, classes)))


def _jax(features: int) -> Any:
    import jax
    import jax.numpy as jnp

    import crescendo

    def loss(params: Any, x: Any, y: Any) -> Any:
        outputs = jnp.tanh(x @ params[0]) @ params[1]
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).mean()

    rng = np.random.default_rng(0)
    return crescendo.jax.model(loss, [rng.normal(size=s).astype(np.float32) for s in ((features, 3), (3, 2))])


def _records(clients: int, rng: _Rng) -> tuple[int, ...]:
    """Draw a declared number of records: from one to a million, sometimes more than the sampler handles at once."""
    if rng.random() < 0.05:
        return tuple([1] * clients)
    first = int(10 ** rng.uniform(0, 6.1))
    return tuple(max(1, int(first * rng.uniform(0.5, 2))) for _ in range(clients))


def _slots(records: int, rng: _Rng) -> int:
    """Draw the slots of a client's round: a rate between 1 / N and 1, and at most some hundred records in a draw."""
    rate = float(10 ** rng.uniform(math.log10(1 / records), 0)) if rng.random() < 0.85 else 1.0
    return int(np.clip(round(rate * records), 1, min(records, 300)))


def _sizes(slots: int, rounds: int, rng: _Rng) -> Sizes:
    if rng.random() < 0.7:
        return ConstantSizes(slots)
    return PowerSizes(max(slots / rounds, 1e-3), power=float(rng.choice([0.5, 1.0])))


def _steps(rng: _Rng) -> Any:
    """Draw a step size: mostly a usual one, sometimes so large or small that scales approach the limits, 1e-60 and 1e60."""
    eta = float(10 ** rng.uniform(-4, 1)) if rng.random() < 0.85 else float(10 ** rng.uniform(-58, 58))
    if rng.random() < 0.75:
        return ConstantSteps(eta)
    return DiminishingSteps(eta, float(10 ** rng.uniform(-3, 0)), per="round" if rng.random() < 0.7 else "slot")


def _clip(mechanism: str, objective: Objective, rng: _Rng) -> Any:
    clip = float(10 ** rng.uniform(-2, 1.5)) if rng.random() < 0.85 else float(10 ** rng.uniform(-58, 58))
    if mechanism == "minibatch" and objective.traits.layered and objective.size > 2 and rng.random() < 0.4:
        first = int(rng.integers(1, objective.size))
        return [[first, clip], [objective.size - first, clip * float(10 ** rng.uniform(-1, 1))]]
    return clip


def _sigma(rounds: int, rng: _Rng) -> Any:
    sigma = float(10 ** rng.uniform(-0.3, 1.3)) if rng.random() < 0.9 else float(10 ** rng.uniform(-1, 5))
    if rounds > 2 and rng.random() < 0.25:
        return [[1, 2 * sigma], [rounds // 2, 1.5 * sigma], [rounds, sigma]]
    return sigma
