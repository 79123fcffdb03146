"""Translation of a run file into the terms of a federation.

A simulation counts records and features; here the run file declares them, and 1/N and weights by size are computed from the
declared counts. The terms hold no value computed from a client's records.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from crescendo.config.schema import Config
from crescendo.core.terms import Terms
from crescendo.data import weights
from crescendo.data.labels import MOST as MOST_CLASSES
from crescendo.data.labels import Classes
from crescendo.data.provenance import LookedAt, withheld_sentence
from crescendo.data.records import Label
from crescendo.data.registry import stated_classes
from crescendo.errors import ConfigError
from crescendo.federation.agreement import build_terms, canonical
from crescendo.federation.auto_terms import DRAFT, PublicNoise, auto_steps, settled_steps
from crescendo.federation.objective_terms import KIND, MOST_OWN_FEATURES, first_model, model_on_trial
from crescendo.federation.schedule_terms import RunSchedule, Schedule
from crescendo.federation.terms_tables import TermsTable
from crescendo.objectives import ModelFile, Objective
from crescendo.objectives.nets.net_names import with_classes
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.guarantee import Guarantee, planned_sigma
from crescendo.privacy.mechanisms.mechanism_kinds import NONE
from crescendo.privacy.protection import Withheld
from crescendo.schedules import StronglyConvexDelay, TheoremSteps
from crescendo_dp.accounting.epsilon import Progress

Raw = dict[str, Any]


def terms_text(config: Config) -> str:
    """Return the terms of a run file. Raise ConfigError if it cannot be served."""
    return terms_and_cost(config)[0]


def terms_and_cost(config: Config) -> tuple[str, Guarantee | None]:
    """Return the terms of a run file and, if it is private, their guarantee for each client."""
    return _terms_and_cost(with_numbers(config)[0])


def with_numbers(config: Config) -> tuple[Config, str]:
    """Replace ``steps = "auto"`` in a run file to be served by numbers. Return the config and the reason for the numbers."""
    if not config.schedule.is_auto:
        return config, ""
    drafted = _with_schedule(config, config.schedule.with_steps(DRAFT))
    draft = build_terms(_terms_text(drafted))
    chosen = auto_steps(draft.terms, draft.objective, noise=public_noise(config, draft.terms))
    return _with_schedule(config, settled_steps(config.schedule, chosen)), chosen.why


def public_noise(config: Config, terms: Terms) -> PublicNoise | None:
    """Return the noise of a private run file, planned if it states only an epsilon. Return None if it is not private."""
    asked = config.privacy
    if asked.mechanism == NONE:
        return None
    records = config.declared(terms.clients)
    assert asked.delta is not None and asked.clip is not None and records is not None
    sigma = asked.sigma
    if sigma is None:
        sigma = planned_sigma(terms, asked.mechanism, records, asked.epsilon, asked.delta)
    return PublicNoise(asked.mechanism, asked.clip, sigma, asked.norm_bound)


def _with_schedule(config: Config, schedule: Schedule) -> Config:
    return config.model_copy(update={"schedule": schedule})


def _terms_and_cost(config: Config) -> tuple[str, Guarantee | None]:
    text = _terms_text(config)
    if config.privacy.mechanism == NONE:
        build_terms(text)
        return text, None
    return _with_privacy(text, config, len(json.loads(text)["clients"]["names"]))


def _terms_text(config: Config) -> str:
    """Return the text of the terms without their privacy."""
    asked, clients = config.serve, config.clients.count
    if asked.federation is None:
        raise ConfigError("serve.federation is missing; name the federation: ledgers identify it by that name")
    features = _features(config)
    if clients is None:
        clients = len(asked.names) if asked.names is not None else None
    if clients is None:
        raise ConfigError("clients.count is missing; a server cannot count the clients by a column of their data")
    names = asked.names if asked.names is not None else tuple(f"client {c}" for c in range(clients))
    strange = [name for name in asked.late if name not in names]
    if strange:
        raise ConfigError(f'serve.late has "{strange[0]}", which is not among the clients; name one of serve.names')
    counts = config.declared(clients)
    raw: Raw = {
        "federation": asked.federation,
        "run": {"seed": config.run.seed, "wire": config.run.wire},
        "clients": {
            "names": names,
            "weights": _weights(config, clients, counts),
            "shares": config.clients.shares,
            # the sum is not written: terms without the key mean it, and always have
            **({} if config.clients.combine == "sum" else {"combine": config.clients.combine}),
        },
        "objective": _objective_to_terms(config, features, counts),
        "schedule": config.schedule.model_dump(mode="json", exclude_none=True),
        "privacy": None,
        # not written without a schema, so that terms from before there were schemas keep their text
        **({} if config.data.schema is None else {"schema": config.data.schema}),
    }
    raw["schedule"] |= _stated_m1(raw, config, clients)
    return canonical(raw)


def guarantee_of(
    config: Config,
    terms: Terms,
    objective: Objective,
    progress: Progress | None = None,
    looked_at: tuple[LookedAt, ...] = (),
) -> Guarantee | Withheld:
    """Return the guarantee of the run file's [privacy] under these terms. Raise ConfigError if it does not hold.

    ``looked_at`` are the entries that were read off the data itself.
    """
    asked = config.privacy
    records = config.declared(terms.clients)
    assert asked.delta is not None and asked.clip is not None and records is not None
    return Guarantee.settled(
        terms,
        objective,
        mechanism=asked.mechanism,
        delta=asked.delta,
        epsilon=asked.epsilon,
        sigma=asked.sigma,
        clip=asked.clip,
        records=records,
        norm_bound=asked.norm_bound,
        looked_at=tuple(dict.fromkeys((*config.looked_at, *looked_at))),
        progress=progress,
    )


def _features(config: Config) -> int:
    """Return the number of features of a record: the schema's width, or the declared number."""
    schema, stated = config.data.table_schema(), config.serve.features
    if schema is None and stated is None:
        raise ConfigError(
            "serve.features is missing; the server sees no records, so state their number of features here or give a data.schema"
        )
    if schema is not None and stated not in (None, schema.width):
        raise ConfigError(f"serve.features = {stated}, and data.schema makes {schema.width}; leave serve.features out")
    if schema is not None:
        return schema.width
    assert stated is not None
    return stated


def _weights(config: Config, clients: int, counts: tuple[int, ...] | None) -> list[float]:
    rule = config.clients.weights
    if rule == "size" and counts is None:
        raise ConfigError(
            'clients.weights = "size" needs serve.records, how many records each client declares; or write "uniform"'
        )
    return [float(weight) for weight in weights(rule, [range(many) for many in counts or (1,) * clients])]


def _with_privacy(text: str, config: Config, clients: int) -> tuple[str, Guarantee]:
    """Certify the terms, settle the noise, confirm the stated epsilon and add the numbers to the terms."""
    asked, raw = config.privacy, json.loads(text)
    raw["privacy"] = {
        "mechanism": asked.mechanism,
        "delta": asked.delta,
        "sigma": asked.sigma if asked.sigma is not None else 1.0,
        "clip": asked.clip,
        "norm_bound": asked.norm_bound,
        "records": config.declared(clients),
        "epsilon": asked.epsilon,
    }
    refuse_looked_at(config)
    made = build_terms(canonical(raw))
    found = guarantee_of(config, made.terms, made.objective)
    assert isinstance(found, Guarantee)
    raw["privacy"]["sigma"] = found.certificate.sigma.to_json()
    return canonical(raw), found


def refuse_looked_at(config: Config) -> None:
    """Refuse private terms with entries read off records: clients would sign an epsilon that does not hold."""
    if config.privacy.mechanism != NONE and config.looked_at:
        raise ConfigError(f"these terms cannot be served: {withheld_sentence(config.looked_at)}")


def _stated_m1(raw: Raw, config: Config, clients: int) -> Raw:
    """Return a theorem's steps and wait rule with M1 written out if there are masks: terms without M1 mean M1 without D."""
    asked, stated = config.schedule, dict[str, Any]()
    try:
        goal = TermsTable.read(json.loads(canonical(raw))).objective.objective()
    except ValueError:  # not valid terms; `build_terms` reports it
        return stated
    run = RunSchedule.of(asked, clients, goal, norm_bound=config.privacy.norm_bound)
    if getattr(asked.steps, "kind", None) == "theorem" and isinstance(run.steps, TheoremSteps):
        stated["steps"] = {**raw["schedule"]["steps"], "m1": run.steps.m1}
    if asked.wait.is_theorem and isinstance(run.delay, StronglyConvexDelay):
        stated["wait"] = {**raw["schedule"]["wait"], "m1": run.delay.m1}
    return stated if asked.blocks > 1 else {}


# -- the objective ----------------------------------------------------------------------------------------------------


def _objective_to_terms(config: Config, features: int, counts: Sequence[int] | None) -> Raw:
    """Return the objective of a run file as terms hold it. A server loads and tries its copy of a user's model here."""
    asked = config.objective
    kind = OBJECTIVES.get(asked.kind)
    if kind is None:
        return _own_model(config, features)
    classes = None if kind.numbers else _classes(config)
    if classes is not None and not kind.fits(len(classes)):
        raise ConfigError(
            f"data.classes has {len(classes)} labels, and {kind.about} needs exactly {kind.many}; name {kind.many}"
        )
    return {
        "kind": kind.name,
        "features": features,
        "l2": _l2(config, counts),
        "intercept": asked.intercept,
        "dtype": asked.dtype,
        "classes": None if classes is None else list(classes),
        **({} if asked.label_range is None else {"label_range": list(asked.label_range)}),
    }


def _classes(config: Config) -> tuple[Label, ...] | None:
    """Return the classes that terms state. Private terms always state them: a client's records must not decide them."""
    if config.data.classes is not None:
        return Classes.stated(config.data.classes)
    return None if config.privacy.mechanism == NONE else stated_classes(config.data.source, None)


def _own_model(config: Config, features: int) -> Raw:
    asked, classes = config.objective, _classes(config)
    if classes is None:
        raise ConfigError(
            "data.classes is missing; a client may have only some of the labels, so name them all to serve a model of your own"
        )
    if len(classes) > MOST_CLASSES or features > MOST_OWN_FEATURES:
        raise ConfigError(
            f"a served model of your own may have {MOST_CLASSES} classes and {MOST_OWN_FEATURES} features at most, "
            f"not {len(classes)} and {features}"
        )
    options = with_classes(asked.kind, asked.options, len(classes))
    _check_options(options)
    copy = ModelFile.read(asked.kind)
    if not KIND.fullmatch(copy.kind):
        raise ConfigError(f'"{copy.kind}" cannot be a name in terms; give the file a short and simple name')
    made = model_on_trial(copy, features, len(classes), options)
    return {
        "kind": copy.kind,
        "sha256": copy.sha256,
        "features": features,
        "options": options,
        "size": made.size,
        "l2": made.l2,
        "dtype": made.dtype.name,
        "classes": list(classes),
        # not written if terms without the key mean the same
        **({} if copy.library or len(classes) != 2 else {"labels": "class numbers"}),
        "start": float(np.linalg.norm(first_model(made, config.run.seed))),
    }


def _check_options(options: Raw) -> None:
    """Refuse options that JSON does not give back unchanged: the server and the clients must read the same options."""
    for name, value in options.items():
        try:
            same = json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise ConfigError(
                f"objective.options.{name} cannot be part of terms; use finite numbers, texts, true, false, lists and tables"
            )


def _l2(config: Config, counts: Sequence[int] | None) -> float:
    if config.objective.l2 != "1/N":
        return float(config.objective.l2)
    if counts is None:
        raise ConfigError('objective.l2 = "1/N" needs serve.records, how many records each client declares')
    return 1.0 / sum(counts)
