"""What is learned, as terms say it: data alone, from which both sides, and aggregators between them, can go on.

Of a user's own model the terms hold what it is called, the SHA-256 of its file, and every number that schedule, certificate and
wire depend on. So terms can be understood, priced and relayed without its code; only a server that begins a federation and a
client that computes need a copy, each its own (`crescendo.federation.own_model`).
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
MOST_OWN_FEATURES = 10_000_000  # of an own model: each side makes up records of that many to try it on


@dataclass(frozen=True)
class Described:
    """A user's own model, as terms describe it. Without its code it can be reasoned about and not computed."""

    kind: str
    sha256: str
    features: int
    options: Raw
    size: int
    l2: float
    dtype: np.dtype[Any]
    start: float  # the length of the first model, by which a copy that would start elsewhere is found out
    signed: bool = False  # it sees the labels of two classes as -1 and +1, as terms of old mean

    @property
    def name(self) -> str:
        return self.kind.rpartition(":")[2]

    @property
    def library(self) -> str:
        """Of whose modules it is; empty for a class with ``initial``, ``gradient`` and ``evaluate``."""
        return library_of(self.kind)

    @property
    def traits(self) -> Traits:
        """A certificate rests on how long the first model is, and needs no more of it."""
        return Traits(name=self.name, l2=self.l2, features=self.features, first_length=self.start, layered=True)

    def _missing(self, *asked: Any, **more: Any) -> NoReturn:
        raise UsageError(f"{self.kind} is only described here; a copy of its file is needed to begin with it")

    initial = gradient = evaluate = stepper = _missing


def first_model(objective: Objective, seed: int) -> Floats:
    """The model that a federation begins with."""
    model: Floats = np.asarray(objective.initial(stream(seed, Purpose.INIT)), dtype=np.float64)
    if model.shape != (objective.size,) or not np.isfinite(model).all():
        raise UsageError(f"the first model must be {objective.size} finite numbers, and it has shape {model.shape}")
    return model


def model_on_trial(copy: ModelFile, features: int, classes: int, options: Raw, signed: bool = False) -> OwnModel:
    """The model of a file, tried on made-up records: no client's records decide whether a federation begins."""
    try:
        return copy.made(made_up_records(features, classes), options, signed)
    except CrescendoError as error:
        raise ConfigError(f"{error} (on made-up records of {features} features and {classes} classes)") from error


def made_up_records(features: int, classes: int, shape: tuple[int, ...] = ()) -> Records:
    """Three records with features between 0 and 1."""
    labels = np.resize(np.array(Classes.values_of(classes)), 3)
    return Records(stream(0, Purpose.SPLIT).random((3, features)), labels, shape)
