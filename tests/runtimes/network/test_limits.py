"""The norm limit lets every sound update pass, and is not far above them."""

from __future__ import annotations

import numpy as np
import pytest

from crescendo.apps.build import prepare
from crescendo.apps.runfile import read
from crescendo.core.random import Purpose, stream
from crescendo.privacy.mechanisms import Private
from crescendo.privacy.noise import SeededSource
from crescendo.runtimes.network.limits import Limits
from crescendo.worker import Worker
from tests.conformance.cases import PRIVATE, case


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_sound_updates_are_within_the_limit_and_a_hundredfold_is_not(mechanism: str) -> None:
    raw = case(privacy={"mechanism": mechanism, **PRIVATE}, schedule={"wait": {"rounds": 50}, "rounds": 12})
    made = prepare(read(raw))
    assert made.privacy is not None
    certificate, goal = made.privacy.certificate, made.objective
    limits = Limits(certificate, goal.size, goal.l2)
    model = np.asarray(goal.initial(stream(0, Purpose.INIT)))
    shares = []
    for c, rows in enumerate(made.parts):
        mechanism_of = Private(certificate, c, rows, SeededSource(3, c))
        worker = Worker(made.terms, c, model, goal, made.dataset.train, rows, 0, "float32", mechanism_of)
        start = 0.0
        for i in range(made.terms.rounds):
            worker.run(made.terms.share(i, c))
            start = float(np.linalg.norm(worker.client.frame))
            update = worker.finish()
            shares.append(float(np.linalg.norm(update.delta)) / limits.longest(i, c, start))
    assert max(shares) < 1.0 < 100 * min(shares)
