"""Objectives in terms: plain data that servers, clients and aggregators can use without a model's code.

For a user's own model the terms hold its name, the SHA-256 of its file, and every number that schedule, certificate
and wire depend on. So terms can be parsed, priced and relayed without its code. Only a server that begins a
federation and a client that computes need a copy, and each uses its own (`crescendo.federation.own_model`).
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.core.random import Purpose, stream
from crescendo.data.labels import Classes
from crescendo.data.records import Records
from crescendo.errors import ConfigError, CrescendoError, UsageError
from crescendo.objectives import ModelFile, Objective, OwnModel, Traits
from crescendo.objectives.model_file import library_of

Raw = dict[str, Any]
KIND = re.compile(r'(torch:|jax:)?[^/\\":]{1,100}\.py:[A-Za-z_]\w{0,99}')
MOST_OWN_FEATURES = 10_000_000  # of a user's own model: each side tries it on made-up records of this width


@dataclass(frozen=True)
class Described:
    """A user's own model as described by terms. Without its code it cannot be computed."""

    kind: str
    sha256: str
    features: int
    options: Raw
    size: int
    l2: float
    dtype: np.dtype[Any]
    start: float  # length of the first model, to detect a copy with another start
    signed: bool = False  # two classes are labelled -1 and +1, as in old terms

    @property
    def name(self) -> str:
        return self.kind.rpartition(":")[2]

    @property
    def library(self) -> str:
        """The library of its modules; empty for a class with ``initial``, ``gradient`` and ``evaluate``."""
        return library_of(self.kind)

    @property
    def traits(self) -> Traits:
        """The traits that a certificate needs; of the first model it needs only the length."""
        return Traits(name=self.name, l2=self.l2, features=self.features, first_length=self.start, layered=True)

    def _missing(self, *asked: Any, **more: Any) -> NoReturn:
        raise UsageError(f"{self.kind} is only described here; name a copy of its file to compute it")

    initial = gradient = evaluate = stepper = _missing


def first_model(objective: Objective, seed: int) -> Floats:
    """Return the model that a federation begins with."""
    model: Floats = np.asarray(objective.initial(stream(seed, Purpose.INIT)), dtype=np.float64)
    if model.shape != (objective.size,) or not np.isfinite(model).all():
        raise UsageError(f"the first model must be {objective.size} finite numbers, but it has shape {model.shape}")
    return model


def model_on_trial(copy: ModelFile, features: int, classes: int, options: Raw, signed: bool = False) -> OwnModel:
    """Load a model and try it on made-up records, so that no client's records affect the start of a federation."""
    try:
        return copy.made(made_up_records(features, classes), options, signed)
    except CrescendoError as error:
        raise ConfigError(f"{error} (on made-up records of {features} features and {classes} classes)") from error


def made_up_records(features: int, classes: int, shape: tuple[int, ...] = ()) -> Records:
    """Return three records with features between 0 and 1."""
    labels = np.resize(np.array(Classes.values_of(classes)), 3)
    return Records(stream(0, Purpose.SPLIT).random((3, features)), labels, shape)
