"""Equal privacy in a comparison: one epsilon, for which each algorithm gets the noise it needs, or one noise level."""

from __future__ import annotations

from typing import Literal

from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.errors import ConfigError
from crescendo.privacy.mechanisms.mechanism_kinds import NONE
from crescendo.runs.prepare import prepare
from crescendo.studies.points import NOTHING, InMemory

Equal = Literal["gradients", "epsilon", "noise"]


def equalised(config: Config, asked: str | None, memory: InMemory = NOTHING) -> tuple[Config, Equal]:
    """Return the config shared by all algorithms, and the name of the quantity that it holds equal."""
    if asked not in (None, "epsilon", "noise"):
        raise ConfigError(f'--equal must be "epsilon" or "noise", not "{asked}"')
    found = config.privacy
    if found.mechanism == NONE:
        if asked is not None:
            raise ConfigError(f"--equal {asked} is for a private run; leave --equal out, or choose a privacy.mechanism")
        return config, "gradients"
    if asked == "epsilon" or (asked is None and found.epsilon is not None):
        if found.epsilon is None:
            raise ConfigError("privacy.epsilon is missing; --equal epsilon needs a budget for every algorithm")
        return read(config, ["privacy.sigma="]), "epsilon"
    sigma = found.sigma if found.sigma is not None else _own_sigma(config, memory)
    if not isinstance(sigma, float | int):
        raise ConfigError(
            "privacy.sigma differs by round, and other algorithms have other rounds; give one number for --equal noise"
        )
    # with no stated epsilon, no algorithm is refused for spending more at the same noise
    return read(config, ["privacy.epsilon=", f"privacy.sigma={float(sigma)!r}"]), "noise"


def _own_sigma(config: Config, memory: InMemory) -> object:
    """Return the noise that our own run needs for the stated epsilon."""
    made = prepare(config, memory.objective, memory.data).privacy
    assert made is not None
    return made.certificate.sigma.to_json()
