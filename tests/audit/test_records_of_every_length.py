"""Records that are far too long or short are drawn along with ordinary ones: a sound mechanism sends what the formula says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Subject, build
from crescendo.audit.worst_cases.edges import probe_lengths
from tests.audit.blind_bugs_two import SkipsOverflow
from tests.audit.mutation.audited_runs import RUNS
from tests.audit.planted_bugs import subject
from tests.audit.planted_mechanisms import planted


def found(one: Subject, seed: int) -> dict[str, str]:
    faults = Faults()
    with np.errstate(all="ignore"):
        probe_lengths(one, np.random.default_rng(seed), faults)
    return faults.found


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_sound_runs_send_what_the_formula_says_of_records_of_every_length(name: str) -> None:
    certificate, objective, features = RUNS[name]()
    one = Subject(certificate, objective, 0, features, (0.0, 1.0), "float64", build)
    assert [found(one, seed) for seed in range(3)] == [{}] * 3


@pytest.mark.slow
def test_a_batch_that_one_record_takes_out_is_found() -> None:
    certificate, objective = subject("minibatch", bound=None)
    sound = Subject(certificate, objective, 0, 6, (0.0, 1.0), "float64", build)
    skips = replace(sound, make=planted(mechanism=SkipsOverflow))
    assert all("edges" in found(skips, seed) for seed in range(10))
    assert not any(found(sound, seed) for seed in range(10))
