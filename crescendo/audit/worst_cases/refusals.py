"""Terms that must be refused: the subject's, with one change that makes the proof false.

The releases of a sound run do not show that a condition is too wide or missing. So the audit asks for certificates that the
proofs deny: steps just beyond a bound, noise of 0, rates above 1. Each must be refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.literal_certificate import least_sigma
from crescendo.audit.driving.subject import Subject
from crescendo.errors import CrescendoError
from crescendo.objectives.layer_clips import LayerClips
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.steps import ConstantSteps, DiminishingSteps
from crescendo.worker import Worker
from crescendo_dp.planning.sigmas import Sigmas

KIND = "terms to be refused"
_KINDS = ("minibatch", "local", "batch-clip")
_FEW = 12  # rounds
_BEYOND = 1.001  # times a bound

_Asked = tuple[str, dict[str, Any]]


def probe_refusals(subject: Subject, faults: Faults) -> None:
    """Ask for each of these certificates, and for a client that runs other terms than were certified."""
    old = subject.certificate
    if old.mechanism not in _KINDS:
        return
    sound = replace(old.terms, rounds=min(old.terms.rounds, _FEW))
    for what, asked in _false(old, sound):
        if _given(old, {"terms": sound} | asked):
            faults.note(KIND, f"a certificate was given for {what}")
    _others_terms(subject, faults)
    _little_delta(old, faults)


def _given(old: Certificate, asked: dict[str, Any]) -> bool:
    own: dict[str, Any] = {"sigma": Sigmas.constant(old.sigma(0)), "records": old.records, "norm_bound": old.norm_bound}
    try:
        given: dict[str, Any] = {"clip": old.stated_clip, "objective": old.objective} | own | asked
        certify(old.mechanism, given.pop("terms"), given.pop("objective"), **given)
    except (CrescendoError, ArithmeticError, ValueError, TypeError):  # refused, in whatever way
        return False
    return True


def _false(old: Certificate, terms: Any) -> Iterator[_Asked]:
    """What is false, and the arguments that make it so."""
    for sigma in (0.0, -1.0, math.nan, math.inf, 1e6 * _BEYOND):
        yield f"a sigma of {sigma:g}", {"sigma": sigma}
    listed = Sigmas(((terms.rounds, old.sigma(0)), (1, old.sigma(0))))
    yield "sigmas of more rounds than there are", {"sigma": listed}
    for factor in (0.0, -1.0, math.nan, math.inf, 1e61 / old.clip, 1e-61 / old.clip):
        clip = old.clip * factor
        yield f"a clip of {clip:g}", {"clip": clip}
    for n in (0, -1, 10**12 + 1):
        yield f"a client of {n} records", {"records": (*old.records[:-1], n)}
    yield "clients without a number of records", {"records": (*old.records, old.records[0])}
    share = max(terms.share(i, c) for i in range(terms.rounds) for c in range(terms.clients))
    if share > 1:
        yield "a rate above 1", {"records": (share - 1,) * terms.clients}
    yield "a round of several start models", {"terms": replace(terms, whole_rounds=False)}
    yield "more blocks than numbers", {"terms": replace(terms, blocks=old.objective.size + 1)}
    yield from _false_steps(old, terms)
    yield from _false_records(old)
    yield from _false_layers(old)


def _false_steps(old: Certificate, terms: Any) -> Iterator[_Asked]:
    first = float(terms.steps.at(0))
    for eta in (0.0, -first, math.nan, math.inf, 1e61 / terms.blocks, 0.99e-60 / terms.blocks):
        yield f"steps of {eta:g}", {"terms": replace(terms, steps=_always(eta))}
    traits = old.objective.traits
    if old.mechanism != "batch-clip" and traits.l2 > 0:
        eta = _BEYOND / (traits.l2 * terms.blocks)
        yield "a step times l2 above 1", {"terms": replace(terms, steps=ConstantSteps(eta))}
    if old.mechanism == "minibatch":
        falling = DiminishingSteps(first, 0.3, per="slot")
        if any(len(set(replace(terms, steps=falling).etas(i, 0).tolist())) > 1 for i in range(terms.rounds)):
            yield "steps that change within a round", {"terms": replace(terms, steps=falling)}
    if old.mechanism == "local" and traits.margin is not None and old.norm_bound is not None:
        eta = _BEYOND * 2.0 / traits.margin(old.norm_bound, old.clip) / terms.blocks
        yield "steps above 2 / L_eff", {"terms": replace(terms, steps=ConstantSteps(eta))}
    if old.mechanism != "local":  # where noise does not make the numbers longer that it hides
        sigma = least_sigma(old) / _BEYOND
        yield "numbers of more than 2^50 steps of the grid", {"sigma": sigma, "terms": old.terms}


def _always(eta: float) -> Any:
    """A constant step that the rule itself may refuse."""
    made = object.__new__(ConstantSteps)
    for field in fields(made):
        object.__setattr__(made, field.name, getattr(ConstantSteps(1.0), field.name))
    object.__setattr__(made, "eta", eta)
    return made


def _false_records(old: Certificate) -> Iterator[_Asked]:
    """Records that no bound holds, and labels that no range does."""
    bounds: tuple[float | None, ...] = (0.0, -1.0, math.nan, math.inf, 1e61)
    if old.objective.traits.intercept:
        bounds += (1.0, 0.5)
    if old.mechanism == "local":
        bounds += (None,)
    for bound in bounds:
        yield f"a norm bound of {bound}", {"norm_bound": bound}
    objective: Any = old.objective
    known = {field.name for field in fields(objective)} if is_dataclass(objective) else set()
    if old.objective.traits.numbers and "label_range" in known:
        yield "labels of any size", {"objective": replace(objective, label_range=None)}
    if old.mechanism == "local" and "dtype" in known:
        yield "a moving model in float32", {"objective": replace(objective, dtype="float32")}


def _false_layers(old: Certificate) -> Iterator[_Asked]:
    size = old.objective.size
    clips: list[list[list[Any]]] = [[], [[0, 1.0], [size, 1.0]], [[size, -1.0]], [[size, math.inf]], [[size, math.nan]]]
    if size > 1:
        clips += [[[size - 1, old.clip], [1, old.clip * 0.9e-6]]]
    if old.mechanism == "minibatch" and old.objective.traits.layered:
        yield from ((f"clips by layer {clip}", {"clip": clip}) for clip in clips)
    yield "layers of more numbers than the model has", {"clip": LayerClips(((size, old.clip), (1, old.clip)))}
    if old.layers is None and not (old.mechanism == "minibatch" and old.objective.traits.layered):
        yield "clips by layer, which this mechanism or model has not", {"clip": LayerClips(((size, old.clip),))}


def _others_terms(subject: Subject, faults: Faults) -> None:
    """A client of one certificate must not run other terms, nor another objective, nor release from beyond the model bound."""
    old, me = subject.certificate, subject.me
    made = old.client(me, np.arange(1), subject.source(np.random.Generator(np.random.Philox(0))))
    others = {
        "other terms than were certified": (replace(old.terms, seed=(old.terms.seed + 1) % 2**64), old.objective),
        "another objective than was certified": (old.terms, object()),
    }
    for what, (terms, objective) in others.items():
        try:
            made.check(terms, objective)  # type: ignore[arg-type]
        except CrescendoError:
            continue
        faults.note(KIND, f"a client ran {what}")
    terms, none = others["other terms than were certified"][0], subject.plain_records(np.random.default_rng(2), 1)
    try:
        model = np.zeros(old.objective.size)
        Worker(terms, me, model, old.objective, none, np.arange(1), 0, subject.wire, made)
        faults.note(KIND, "a worker was made that runs other terms than were certified")
    except CrescendoError:
        pass
    far = np.zeros(old.objective.size)
    far[0] = _BEYOND * old.model_bound
    if not np.isfinite(far[0] ** 2) or far[0] == 0:
        return
    try:
        stepper = made.stepper(old.objective, none)
        stepper.load(far)
        made.release(subject.rounds()[0], far, stepper)
    except CrescendoError:
        return
    faults.note(KIND, "a round was released that began beyond the model bound")


def _little_delta(old: Certificate, faults: Faults) -> None:
    """Rare events come off delta, and must be no more than a billionth of it."""
    delta = max(0.5e9 * old.failure, 1e-300)
    if old.failure > 0:
        try:
            old.usual_delta(delta)
            faults.note(KIND, f"delta = {delta:g} was accepted beside a chance of failure of {old.failure:g}")
        except CrescendoError:
            pass
    enough = max(2e9 * old.failure, 1e-9)
    if enough < 1 and not 0 < old.usual_delta(enough) <= enough - old.failure:
        faults.note(
            "certificate", f"of delta = {enough:g} it leaves {old.usual_delta(enough):.17g}, rare events included"
        )
