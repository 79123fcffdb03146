"""What a federation agrees on, as one text that both sides build everything from.

The text is canonical JSON: sorted keys, no spaces. Its digest stands in every message, journal and ledger. Nothing in it was
computed from a client's records: what a simulation would count (records, features, 1/N, weights by size) is typed in, and
resolved to numbers before the text is made. Server and client build schedule, objective and certificate from the text by the
same function, so that no side takes the other's word for a size, a step or a rate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.config.loading import check, read, read_raw
from crescendo.config.schema import Config
from crescendo.core.terms import Terms
from crescendo.data import weights
from crescendo.errors import ConfigError, CrescendoError, Refused, UsageError
from crescendo.federation.objective_terms import first_model, names_of, said, understood
from crescendo.federation.terms_shape import check_extent, check_shape
from crescendo.network.protocol.peer_text import cleaned
from crescendo.privacy.accounting.events import PoissonGaussian
from crescendo.privacy.mechanisms.certificate import Certificate, certify, usual_delta
from crescendo.privacy.mechanisms.sigmas import Sigmas
from crescendo.runs.guarantee import Guarantee, declared, guarantee
from crescendo.runs.make_schedule import Theorem, at, certificate_of, make_delay, make_steps
from crescendo.runs.prepare import curvature
from crescendo.schedules import Certificate as ScheduleCertificate

MOST_TEXT = 3 << 20
LONGEST = 900  # letters of a sentence about terms, which may quote them
ELSEWHERE = "with the clients"  # the data source of a run file that is only served
NOTHING_HIDDEN = PoissonGaussian(1.0, 0.0)  # what a round without privacy costs: everything


@dataclass(frozen=True, eq=False)
class Agreed:
    """Everything that follows from the text of the terms."""

    text: str
    digest: str
    federation: str
    names: tuple[str, ...]
    seed: int
    wire: str
    terms: Terms
    objective: Any
    learns: tuple[str, ...]  # what a policy may call the objective
    features: int
    classes: tuple[int | float | str, ...] | None
    schedule: ScheduleCertificate
    certificate: Certificate | None
    delta: float | None

    @property
    def mechanism(self) -> str:
        return "none" if self.certificate is None else self.certificate.mechanism

    def initial(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The model that everybody starts from."""
        return first_model(self.objective, self.seed)

    def plan(self, me: int) -> tuple[PoissonGaussian | None, ...]:
        """What each round costs client ``me``: the plan that its ledger signs. Without privacy each costs everything."""
        if self.certificate is not None:
            return self.certificate.plan(me)
        return tuple(NOTHING_HIDDEN if slots else None for slots in self.terms.shares_of(me))


def read_served(path: Path, overrides: list[str] | None = None) -> Config:
    """A run file that is served: [data], or its source, may be left out, since the records are with the clients."""
    raw = read_raw(path, overrides or ())
    if isinstance(raw.setdefault("data", {}), dict):
        raw["data"].setdefault("source", ELSEWHERE)
    if isinstance(raw.get("clients"), dict) and isinstance(raw.get("serve"), dict):
        names = raw["serve"].get("names")
        if isinstance(names, list):
            raw["clients"].setdefault("count", len(names))
    return check(raw)


def terms_text(config: Config) -> str:
    """The terms of a run file, or ConfigError for what cannot be served."""
    return terms_and_cost(config)[0]


def terms_and_cost(config: Config) -> tuple[str, Guarantee | None]:
    """The terms of a run file and, of a private one, what they cost each client."""
    asked, clients = config.serve, config.clients.count
    if asked.federation is None:
        raise ConfigError("serve.federation is missing; name the federation, so that ledgers can tell it from others")
    if asked.features is None:
        raise ConfigError("serve.features is missing; the server sees no records and has to be told how many they have")
    if clients is None:
        clients = len(asked.names) if asked.names is not None else None
    if clients is None:
        raise ConfigError("clients.count is missing; a server cannot count the clients by a column of their data")
    names = asked.names if asked.names is not None else tuple(f"client {c}" for c in range(clients))
    if len(names) != clients:
        raise ConfigError(f"serve.names has {len(names)} names for {clients} clients; give one per client")
    strange = [name for name in asked.late if name not in names]
    if strange:
        raise ConfigError(f'serve.late has "{strange[0]}", which is not among the clients; name one of serve.names')
    counts = _counts(config, clients)
    text = _canonical(
        {
            "federation": asked.federation,
            "run": {"seed": config.run.seed, "wire": config.run.wire},
            "clients": {
                "names": names,
                "weights": _weights(config, clients, counts),
                "shares": config.clients.shares,
            },
            "objective": said(config, asked.features, counts),
            "schedule": config.schedule.model_dump(mode="json", exclude_none=True),
            "privacy": None,
        }
    )
    if config.privacy.mechanism == "none":
        build_terms(text)
        return text, None
    return _with_privacy(text, config, clients)


def build_terms(text: str) -> Agreed:
    """Everything that follows from a text of terms; Refused, in one sentence, if it is not one or does not hold."""
    try:
        return built(text)
    except CrescendoError as error:
        error.args = (cleaned(str(error), LONGEST),)
        raise
    except Exception as error:  # whatever was not thought of: a peer's text must not end this side
        raise Refused(
            f"the terms cannot be used ({type(error).__name__}); ask the server's operator for the run file"
        ) from error


def built(text: str) -> Agreed:
    """The same, where an exception that nobody thought of is seen."""
    if len(text) > MOST_TEXT:
        raise Refused(f"the terms have {len(text)} characters, and {MOST_TEXT} are allowed; name fewer clients")
    try:
        raw = json.loads(text)
        if _canonical(raw) != text:
            raise ValueError("not in canonical form")
        check_shape(raw)
        return _build(text, raw)
    except RecursionError:
        raise Refused("the terms are nested too deeply to be terms; ask the server's operator") from None
    except ValueError as error:
        raise Refused(f"the terms cannot be understood ({error}); both sides must run the same version") from None


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _build(text: str, raw: Mapping[str, Any]) -> Agreed:
    names, goal, private = raw["clients"]["names"], raw["objective"], raw["privacy"]
    config = _as_config(raw, len(names))
    objective = understood(goal)
    terms, schedule = _schedule(config, objective, tuple(float(weight) for weight in raw["clients"]["weights"]))
    certificate = None
    if private is not None:
        if goal["classes"] is None:
            raise Refused(
                "the terms are private and name no classes, so that a record could decide what the labels of the others mean; "
                "the server's run file must have data.classes"
            )
        certificate = certify(
            private["mechanism"],
            terms,
            objective,
            clip=float(private["clip"]),
            sigma=Sigmas.of(private["sigma"]),
            records=tuple(int(records) for records in private["records"]),
            norm_bound=private["norm_bound"],
        )
        usual_delta(certificate, float(private["delta"]))  # refuses a delta that leaves no room for rare events
    return Agreed(
        text=text,
        digest=digest_of(text),
        federation=raw["federation"],
        names=tuple(names),
        seed=config.run.seed,
        wire=config.run.wire,
        terms=terms,
        objective=objective,
        learns=names_of(objective),
        features=int(goal["features"]),
        classes=None if goal["classes"] is None else tuple(goal["classes"]),
        schedule=schedule,
        certificate=certificate,
        delta=None if private is None else float(private["delta"]),
    )


def _as_config(raw: Mapping[str, Any], clients: int) -> Config:
    """The terms as a run file, for the functions that make schedules from one. Every value is checked on the way."""
    private = dict(raw["privacy"]) if raw["privacy"] is not None else {"mechanism": "none"}
    return read(
        {
            "run": raw["run"],
            "data": {"source": ELSEWHERE},
            "clients": {"count": clients, "shares": raw["clients"]["shares"]},
            "objective": {"l2": float(raw["objective"]["l2"]), "dtype": raw["objective"]["dtype"]},
            "schedule": raw["schedule"],
            "privacy": {name: value for name, value in private.items() if value is not None},
        }
    )


def _schedule(config: Config, objective: Any, shares: tuple[float, ...]) -> tuple[Terms, ScheduleCertificate]:
    asked, private = config.schedule, config.privacy.mechanism != "none"
    sizes = check_extent(config, shares)
    theorem = Theorem(config, sizes(0), *curvature(objective, None, config.privacy.norm_bound))
    certificate = certificate_of(config, sizes, theorem)
    if asked.blocks > objective.size:
        raise ConfigError(f"schedule.blocks must be at most the model's {objective.size} numbers, not {asked.blocks}")
    with at("schedule"):
        terms = Terms(
            sizes=sizes,
            steps=make_steps(config, theorem),
            weights=shares,
            rounds=sizes.rounds,
            ahead=asked.wait.rounds,
            tau=make_delay(config, theorem),
            shares_by=config.clients.shares,
            seed=config.run.seed,
            blocks=asked.blocks,
            whole_rounds=private,
        )
    return terms, certificate


def _counts(config: Config, clients: int) -> tuple[int, ...] | None:
    """The declared records of every client, None where they were not declared."""
    if config.privacy.mechanism != "none":
        return declared(config, clients)
    asked = config.serve.records
    if asked is None:
        return None
    counts = (asked,) * clients if isinstance(asked, int) else asked
    if len(counts) != clients:
        raise ConfigError(f"serve.records has {len(counts)} numbers for {clients} clients; give one per client")
    return counts


def _weights(config: Config, clients: int, counts: tuple[int, ...] | None) -> list[float]:
    rule = config.clients.weights
    if rule == "size" and counts is None:
        raise ConfigError(
            'clients.weights = "size" needs serve.records, how many records each client declares; or write "uniform"'
        )
    return [float(weight) for weight in weights(rule, [range(many) for many in counts or (1,) * clients])]


def _with_privacy(text: str, config: Config, clients: int) -> tuple[str, Guarantee]:
    """Certify, settle the noise, confirm the stated epsilon, and write the numbers down."""
    asked, raw = config.privacy, json.loads(text)
    raw["privacy"] = {
        "mechanism": asked.mechanism,
        "delta": asked.delta,
        "sigma": asked.sigma if asked.sigma is not None else 1.0,
        "clip": asked.clip,
        "norm_bound": asked.norm_bound,
        "records": declared(config, clients),
        "epsilon": asked.epsilon,
    }
    made = build_terms(_canonical(raw))
    found = guarantee(config, made.terms, made.objective)
    raw["privacy"]["sigma"] = found.certificate.sigma.to_json()
    return _canonical(raw), found


def _canonical(raw: Any) -> str:
    try:
        return json.dumps(raw, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    except ValueError as error:
        raise UsageError(f"the terms cannot be written down: {error}") from None
