"""Attack on the ledger: it must charge each release once, before it is sent, and nothing beyond the budget or the plan.

The ledger does not depend on the audited run, so the audit charges a small separate plan in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.literal_cost import least_epsilon
from crescendo.core.messages import Settled
from crescendo.errors import CrescendoError
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.events import Event, PoissonGaussian, tally
from crescendo_dp.ledger.budget import Budget

KIND = "charged as sent"
_BIG, _SMALL = PoissonGaussian(0.5, 2.0), PoissonGaussian(0.1, 3.0)
_PLAN: tuple[Event | None, ...] = (_BIG, _SMALL, None, _SMALL, _BIG, _SMALL)
_DELTA, _FAILURE = 1e-6, 1e-16
_OPENED = "the ledger, opened again,"


def charges_test(faults: Faults) -> None:
    """Sign, release, close and open again; every step that the budget or the plan does not allow must be refused."""
    with tempfile.TemporaryDirectory() as folder, faults.noting("a ledger"):
        path = Path(folder) / "ledger"
        with open_ledger(path, Budget(epsilon=5.0, delta=1e-5)) as ledger:
            promise = ledger.sign("a", "terms", "me", _PLAN, _DELTA, failure=_FAILURE)
            cost = least_epsilon([event for event in _PLAN if event is not None], _DELTA)
            if not cost <= promise.epsilon < 5.0:
                faults.note(KIND, f"a plan that costs {cost:.4g} or more is priced at {promise.epsilon:.4g}")
            _refused_before(ledger, faults)
            first = ledger.release("a", 0, _BIG, b"zero")
            second = ledger.release("a", 1, _SMALL, b"one")
            again = ledger.release("a", 1, _SMALL, b"another")
            if (first, second, again) != (b"zero", b"one", b"one"):
                faults.note(KIND, f"round 1 was released as {second!r} and then as {again!r}")
            ledger.charge_void("a", 3, _SMALL)
            _refused_after(ledger, faults)
            if ledger.left().epsilon < promise.epsilon:
                faults.note(KIND, f"of a promise of {promise.epsilon:.4g} only {ledger.left().epsilon:.4g} is counted")
        with open_ledger(path, Budget(epsilon=5.0, delta=1e-5)) as ledger:
            _told(ledger, "the ledger, opened again,", faults)
            _refused_after(ledger, faults)
            ledger.acknowledge("a", Settled(1))
            if [release.round for release in ledger.unacknowledged("a")] != [1]:
                faults.note(
                    KIND, "a round that the server has not got is not kept to be sent again, or one that it has is"
                )
            _must_refuse(
                lambda: ledger.release("a", 0, _BIG, b"zero"), "a round whose bytes are gone was made again", faults
            )
            ledger.close_federation("a")
            _must_refuse(
                lambda: ledger.release("a", 4, _BIG, b"4"),
                "a round was released after its federation was closed",
                faults,
            )
            _told(ledger, "the ledger, closed for a federation,", faults)
            if not least_epsilon(ledger_events(ledger), _DELTA) <= ledger.left().epsilon:
                faults.note(KIND, "less is counted as spent than was charged")
        _fits(Path(folder), promise.epsilon, faults)


def ledger_events(ledger: Ledger) -> list[Event]:
    """Return the charged events one by one."""
    return [event for event, count in ledger.charged() for _ in range(count)]


def _told(ledger: Ledger, what: str, faults: Faults) -> None:
    due = tally([_BIG, _SMALL, _SMALL])
    if ledger.charged() != due:
        faults.note(KIND, f"{what} has {ledger.charged()} charged, and {due} was released or void")
    if ledger.last_round("a") != 3:
        faults.note(KIND, f"{what} has round {ledger.last_round('a')} as its last, and round 3 was charged")


def _refused_before(ledger: Ledger, faults: Faults) -> None:
    _must_refuse(lambda: ledger.sign("a", "terms", "me", _PLAN[:-1], _DELTA), "another plan was signed", faults)
    _must_refuse(lambda: ledger.sign("a", "terms", "me", _PLAN, _DELTA / 2), "another delta was signed", faults)
    _must_refuse(
        lambda: ledger.sign("a", "other", "me", _PLAN, _DELTA), "other terms were signed under a known name", faults
    )
    _must_refuse(lambda: ledger.sign("b", "terms", "me", _PLAN, 2e-5), "more than all of delta was signed away", faults)
    _must_refuse(
        lambda: ledger.sign("b", "t", "me", _PLAN, _DELTA, failure=_DELTA), "rare events took all of delta", faults
    )
    loud = (PoissonGaussian(1.0, 0.3),) * 6
    _must_refuse(lambda: ledger.sign("c", "terms", "me", loud, _DELTA), "a plan beyond the budget was signed", faults)


def _refused_after(ledger: Ledger, faults: Faults) -> None:
    for what, federation, i, event in (
        ("a round with less noise than was signed", "a", 4, PoissonGaussian(0.5, 1.0)),
        ("a round that was to send nothing", "a", 2, _SMALL),
        ("a round before the last one charged", "a", 2, _BIG),
        ("a round that failed, and was charged as void,", "a", 3, _SMALL),
        ("a round beyond the plan", "a", len(_PLAN), _SMALL),
        ("a round before the first", "a", -1, _SMALL),
        ("a federation that was not signed off", "b", 0, _BIG),
    ):
        _must_refuse(
            lambda federation=federation, i=i, event=event: ledger.release(federation, i, event, b"again"),  # type: ignore[misc]
            f"{what} was released",
            faults,
        )
    _must_refuse(lambda: ledger.charge_void("a", 1, _SMALL), "a round was charged twice", faults)


def _must_refuse(act: Callable[[], Any], what: str, faults: Faults) -> None:
    try:
        act()
    except CrescendoError:
        return
    faults.note(KIND, what)


def _fits(folder: Path, price: float, faults: Faults) -> None:
    """A budget that is a little too small for a plan, or for a second one like it."""
    with open_ledger(folder / "small", Budget(epsilon=0.9 * price, delta=1e-5)) as ledger:
        _must_refuse(
            lambda: ledger.sign("a", "terms", "me", _PLAN, _DELTA), "a plan beyond a small budget was signed", faults
        )
    with open_ledger(folder / "one", Budget(epsilon=1.02 * price, delta=1e-5)) as ledger:
        ledger.sign("a", "terms", "me", _PLAN, _DELTA)
        _must_refuse(
            lambda: ledger.sign("b", "terms", "me", _PLAN, _DELTA),
            "two plans were signed into a budget for one",
            faults,
        )
