"""Every experiment, in the order of the page of results."""

from __future__ import annotations

from crescendo.errors import ConfigError
from crescendo.reproduce.contests import privacy_contest, straggler_contest
from crescendo.reproduce.experiment import Experiment
from crescendo.reproduce.experiments import (
    biased_data,
    biased_rivals,
    constant_sizes,
    lenet_runs,
    linear_sizes,
    privacy_examples,
    private_lenet,
    private_runs,
    rounds_law,
    sampling_methods,
    step_sizes,
)
from crescendo.reproduce.theory import constant_step_bound, delays, theorem_bound

EXPERIMENTS: tuple[Experiment, ...] = (
    constant_sizes.EXPERIMENT,
    rounds_law.EXPERIMENT,
    sampling_methods.EXPERIMENT,
    step_sizes.EXPERIMENT,
    linear_sizes.EXPERIMENT,
    biased_data.EXPERIMENT,
    biased_rivals.EXPERIMENT,
    theorem_bound.EXPERIMENT,
    constant_step_bound.EXPERIMENT,
    delays.EXPERIMENT,
    private_runs.EXPERIMENT,
    privacy_examples.EXPERIMENT,
    privacy_contest.EXPERIMENT,
    privacy_contest.MNIST,
    straggler_contest.EXPERIMENT,
    lenet_runs.EXPERIMENT,
    private_lenet.EXPERIMENT,
)

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
