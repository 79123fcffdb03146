"""Every experiment, in the order of the page of results."""

from __future__ import annotations

from crescendo.errors import ConfigError
from lab.contests import biased_rivals, equal_privacy, stragglers
from lab.experiments import (
    biased_data,
    constant_sizes,
    lenet,
    linear_sizes,
    privacy_examples,
    private_lenet,
    private_runs,
    rounds_law,
    sampling_methods,
    step_sizes,
)
from lab.pipeline.experiment import Experiment
from lab.theory import constant_step_bound, delays, theorem_bound

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
    equal_privacy.EXPERIMENT,
    equal_privacy.MNIST,
    stragglers.EXPERIMENT,
    lenet.EXPERIMENT,
    private_lenet.EXPERIMENT,
)

ALL = "all"


def chosen(name: str) -> list[Experiment]:
    """Return the experiment of that name; for "all", every one that is not long.

    >>> [one.name for one in chosen("rounds-law")]
    ['rounds-law']
    """
    found = [one for one in EXPERIMENTS if one.name == name or (name == ALL and not one.long)]
    if not found:
        names = ", ".join(one.name for one in EXPERIMENTS)
        raise ConfigError(f"there is no experiment {name!r}; choose all or one of {names}")
    return found
