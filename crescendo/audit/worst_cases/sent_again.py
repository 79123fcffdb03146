"""Attack on stored releases: the ledger must charge and keep a release before it is sent, and resend the same bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.audit.driving.subject import Driver, Subject
from crescendo.audit.worst_cases.scenes import Scene

Opener = Callable[[Path], Any]
_FEDERATION = "audit"


def open_outbox(path: Path) -> Any:
    """Open a ledger with an ample budget."""
    from crescendo.storage.ledger.open_ledger import open_ledger
    from crescendo_dp.ledger.budget import Budget

    return open_ledger(path, Budget(epsilon=1e6, delta=0.5))


def outbox_test(subject: Subject, rng: np.random.Generator, opener: Opener = open_outbox) -> dict[str, str]:
    """A client releases two rounds and is killed; another like it begins the same rounds again, with other noise."""
    scene, rounds = Scene.random(subject, rng, others=3), subject.pairs()[0]
    data, rows = scene.data(subject.features), np.arange(len(scene.y))
    certificate, me = subject.certificate, subject.me
    plan = [certificate.event(i, me) if i in rounds else None for i in range(rounds[-1] + 1)]
    seen: list[dict[int, bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            driver = Driver(subject, data, rows, subject.source(rng), scene.start)
            with opener(Path(folder) / "ledger") as ledger:
                ledger.sign(_FEDERATION, certificate.terms.digest, str(me), plan, 1e-6)
                sent = {}
                for i in rounds:
                    driver.begin(i, scene.start)
                    driver.run(i)
                    event = certificate.event(i, me)
                    assert event is not None
                    sent[i] = bytes(ledger.release(_FEDERATION, i, event, driver.sent[-1].delta.tobytes()))
                seen += [sent, {release.round: release.data for release in ledger.unacknowledged(_FEDERATION)}]
    for later in seen[1:]:
        for i in rounds:
            if later.get(i) != seen[0][i]:
                return {"messages sent again": f"round {i} came out of the outbox with other bytes than were sent"}
    return {}
