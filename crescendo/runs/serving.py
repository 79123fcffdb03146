"""Serving of a run file: makes its terms once, keeps them with the journal, and serves the federation."""

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crescendo.config.schema import Config
from crescendo.config.to_terms import refuse_looked_at, terms_and_cost
from crescendo.data.records import Records
from crescendo.errors import ConfigError, CrescendoError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.federation.own_records import RecordSource
from crescendo.logs import Log, quiet
from crescendo.network.server.liveness import HOLD_LEAST, LivenessLimits
from crescendo.network.server.serve import Listening, Served, serve
from crescendo.objectives.score import Measured


def serve_file(
    config: Config,
    listening: Listening,
    state: Path,
    *,
    linger: float = 60.0,
    keep_all: bool = False,
    log: Log = quiet,
) -> Served:
    """Serve the federation of a run file from the start, or resume the one in its folder."""
    refuse_looked_at(config)  # also if the folder has the terms already
    listening.check_start(state, linger)  # before the accounting, which may take a minute
    with listening.starting():
        asked, text, costs = _remembered_terms(config, state, log)
        agreed, rules = with_copy(build_terms(text), servers_copy(config.objective.kind)), config.serve
        test = None if rules.test is None else _public_test(config, rules.test, agreed)
    stated = config.privacy.epsilon
    if len(costs) != len(agreed.names) and stated is not None:  # the accountant confirmed it for every client
        costs = (stated,) * len(agreed.names)
    limits = LivenessLimits(rules.absent_after, rules.gather, rules.hold_after, rules.hold_least or HOLD_LEAST)
    served = serve(
        agreed,
        listening,
        state,
        late=rules.late,
        limits=limits,
        asked=asked,
        costs=costs,
        linger=linger,
        keep_all=keep_all,
        reserve=None if rules.disk_reserve is None else rules.disk_reserve * 1e6,
        log=log,
    )
    return served if test is None or not served.finished else _measured(served, agreed, test, log)


def _public_test(config: Config, name: str, agreed: Agreement) -> Records:
    """Read the public set on which the server will measure its model, before it serves."""
    try:
        return RecordSource(name, config.data.folder, config.data.label).read_public(agreed)
    except CrescendoError as error:
        raise ConfigError(f"serve.test: {error}") from None


def _measured(served: Served, agreed: Agreement, test: Records, log: Log) -> Served:
    """Add the score of the last model on the public set, unless a user's model fails to give one."""
    try:
        found = Measured.of(agreed.objective, served.model, test)
    except Exception as error:
        log("not_measured", reason=f"the model failed with {type(error).__name__}")
        return served
    if found is None:
        log("not_measured", reason="the model has no such measure")
        return served
    log("measured", says=str(found), of="public set")
    return replace(served, score=found)


def _remembered_terms(config: Config, state: Path, log: Log) -> tuple[str, str, tuple[float, ...]]:
    """Return the run file's fingerprint, its terms, and their cost for each client, which old folders lack.

    Accounting for a private run takes seconds, so the journal's folder keeps all three. The fingerprint omits keys at their
    default: a newer version may have more keys, and must not make the terms of a running federation again.
    """
    stated = config.model_dump(mode="json", exclude_defaults=True)
    asked = _fingerprint(_with_combine(stated, config.clients.combine))
    as_before = _fingerprints_of_earlier_versions(config, stated)
    kept = state / "terms.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(kept.read_text())
        if found["asked"] in (asked, *as_before):
            return asked, str(found["terms"]), tuple(float(cost) for cost in found.get("costs", ()))
    if config.privacy.mechanism != "none":
        log("accounting", says="the cost of the whole plan; this is done once and may take a minute")
    text, cost = terms_and_cost(config)
    return asked, text, () if cost is None else tuple(spent.epsilon for spent in cost.spent)


def _fingerprints_of_earlier_versions(config: Config, stated: dict[str, Any]) -> tuple[str, ...]:
    """Return older fingerprints of the run file: a missing ``combine`` meant the sum, and the first one covered defaults."""
    mean = config.clients.combine == "mean" and "combine" in config.clients.model_fields_set
    whole = _with_combine(config.plain(), "mean" if mean else "sum")
    return _fingerprint(_with_combine(stated, "mean" if mean else None)), _fingerprint(whole)


def _with_combine(plain: dict[str, Any], combine: str | None) -> dict[str, Any]:
    """Return the run file with ``clients.combine`` set to ``combine``, or without it for None."""
    clients = {name: value for name, value in plain.get("clients", {}).items() if name != "combine"}
    return {**plain, "clients": clients if combine is None else {**clients, "combine": combine}}


def _fingerprint(plain: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
