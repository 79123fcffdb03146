"""A side's own copy of the model that the terms describe.

No side takes code from a peer. The user of this side names a copy; its bytes are compared with the SHA-256 in the
terms before they run, and the resulting model with the numbers in the terms.
"""

import dataclasses
import math

import numpy as np

from crescendo.errors import CrescendoError, Refused
from crescendo.federation.agreement import Agreement, check_running
from crescendo.federation.objective_terms import Described, first_model, made_up_records, model_on_trial
from crescendo.logs import Log
from crescendo.objectives import ModelFile, OwnModel
from crescendo.objectives.nets.net_names import name_of
from crescendo.objectives.objective_kinds import OBJECTIVES

VERSIONS = "install the same versions of its imports"


def servers_copy(kind: str) -> ModelFile | None:
    """Return the file of the user's own objective; None for one of ours."""
    return None if kind in OBJECTIVES else ModelFile.read(kind)


def clients_copy(agreed: Agreement, copy: ModelFile | None, log: Log) -> Agreement:
    """Call `with_copy` for a client. Errors of its own code go to its own log only, since a refusal is sent to the server."""
    try:
        return with_copy(agreed, copy)
    except Refused:
        raise
    except (CrescendoError, MemoryError) as error:
        log("model_failed", reason=str(error) or type(error).__name__)
        kind = agreed.learns[0]
        raise Refused(
            f"this client's copy of {kind} does not run on its machine; the client's own log says why"
        ) from error


def with_copy(agreed: Agreement, copy: ModelFile | None) -> Agreement:
    """Return terms with a computable objective, using this copy of the described model (None for one of ours), or refuse."""
    goal = agreed.objective
    if not isinstance(goal, Described):
        if copy is not None:
            raise Refused(
                f"the terms train {agreed.learns[0]}, but --model names a copy of {copy.kind}; leave --model out"
            )
        return agreed
    made = _checked(goal, copy, len(agreed.classes or ()))
    start = first_model(made, agreed.seed)
    _check_start(float(np.linalg.norm(start)), goal)
    check_running(made, agreed.terms)
    certificate = agreed.certificate
    if certificate is not None:
        by_record = certificate.kind.clips_records
        if by_record and made.traits.unfit is not None:
            raise Refused(f"{certificate.mechanism} cannot be certified for {goal.kind}: {made.traits.unfit}")
        if by_record and not made.traits.plain_steps:
            raise Refused(
                f"{certificate.mechanism} takes plain steps, but {goal.kind} has its own optimiser; use batch-clip"
            )
        sample = made_up_records(goal.features, len(agreed.classes or ()))
        made.check_forgetful(start, sample, goal.kind, by_record)
        certificate = dataclasses.replace(
            certificate, objective=made
        )  # same numbers, on which alone the certificate rests
    return dataclasses.replace(agreed, objective=made, certificate=certificate)


def _checked(goal: Described, copy: ModelFile | None, classes: int) -> OwnModel:
    ours = name_of(goal.kind)
    if copy is None and ours is not None:
        raise Refused(f"the terms train one of Crescendo's own networks, {ours}; allow it with --model {ours}")
    if copy is None:
        raise Refused(
            f"the terms train the model {goal.kind}, and a server sends no code; get a copy whose SHA-256 is "
            f"{goal.sha256}, read it, and name it with --model FILE.py:{goal.name}"
        )
    if copy.name != goal.name:
        raise Refused(f"the terms train {goal.name} of {goal.kind}, but --model names {copy.name}; name {goal.name}")
    if copy.sha256 != goal.sha256:
        same = f"the same version and --model {ours}" if ours else "the file that the terms were made with"
        raise Refused(
            f"this copy of {goal.kind} has the SHA-256 {copy.sha256}, but the terms state {goal.sha256}; "
            f"both sides need {same}"
        )
    copy = dataclasses.replace(copy, library=goal.library)  # the terms decide the kind of model
    made = model_on_trial(copy, goal.features, classes, goal.options, goal.signed)
    if (made.size, made.l2, made.dtype) != (goal.size, goal.l2, goal.dtype):
        raise Refused(
            f"{goal.kind} has {made.size} numbers of {made.dtype} with l2 = {made.l2:g} on this machine, but the "
            f"terms state {goal.size} of {goal.dtype} with l2 = {goal.l2:g}; {VERSIONS}"
        )
    return made


def _check_start(length: float, goal: Described) -> None:
    """Compare start models by length, but not to the last bit: processors differ there, harmlessly."""
    if not math.isclose(length, goal.start, rel_tol=1e-9):
        raise Refused(
            f"{goal.kind} begins with a model of length {length:.9g} on this machine, but the terms state "
            f"{goal.start:.9g}; {VERSIONS}"
        )
