"""Every experiment, in the order of the page of results."""

from __future__ import annotations

from crescendo.errors import ConfigError
from crescendo.reproduce.experiment import Experiment
from crescendo.reproduce.experiments import rounds_law

EXPERIMENTS: tuple[Experiment, ...] = (rounds_law.EXPERIMENT,)

ALL = "all"


def chosen(name: str) -> list[Experiment]:
    """The experiment of that name; for "all" every one but those that take long.

    >>> [one.name for one in chosen("rounds-law")]
    ['rounds-law']
    """
    found = [one for one in EXPERIMENTS if one.name == name or (name == ALL and not one.long)]
    if not found:
        names = ", ".join(one.name for one in EXPERIMENTS)
        raise ConfigError(f"there is no experiment {name!r}; choose all or one of {names}")
    return found
