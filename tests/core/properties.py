"""What must hold of server and client together, each as a plain function of the parts under test.

The same functions run in the property tests (on the real parts) and in `test_planted_bugs` (on broken ones, where they must
raise AssertionError).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crescendo.core.client import Done
from crescendo.core.terms import Terms
from tests import paper
from tests.core.play import Parts, Play, Style


def for_all(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], examples: int = 40) -> None:
    """Check many drawn examples, the same ones each time. No shrinking: a planted bug should fail at once."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(example: Any) -> None:
        check(example)

    run()


@dataclass(frozen=True)
class Case:
    """One federation and one adversary."""

    terms: Terms
    seed: int
    style: Style

    def play(self, parts: Parts, **more: Any) -> Play:
        return Play(self.terms, self.seed, parts, self.style, **more)


def cases(terms: st.SearchStrategy[Terms], *styles: Style) -> st.SearchStrategy[Case]:
    return st.builds(Case, terms, st.integers(0, 2**20), st.sampled_from(styles))


def follows_the_paper(parts: Parts, case: Case) -> None:
    """After every event, models to 1e-12 and all counters are those of the literal algorithms."""
    case.play(parts, lockstep=True).run()


def never_stands_still(parts: Parts, case: Case) -> None:
    """A live schedule reaches its last round whatever the adversary does, and then everybody present is done."""
    play = case.play(parts).run()
    assert play.server.k == case.terms.rounds
    for seat in play.seats:
        assert seat.down or seat.absent or isinstance(seat.client.next(), Done), "work is left when all rounds are in"


def every_pair_is_applied_once(parts: Parts, case: Case) -> None:
    """In the end each slot is in the model once; only what was declared absent or void may be missing."""
    play = case.play(parts).run()
    missing = set(range(play.labels)) - play.contains(play.server.model)
    assert missing <= play.excluded(), f"never applied: labels {missing}"


def keeps_the_delay_bound(parts: Parts, case: Case) -> None:
    """t_delay <= tau(t_glob), or i <= k + d, for every gradient that was computed."""
    play = case.play(parts).run()
    for g in play.gradients:
        if case.terms.ahead is not None:
            assert g.round <= g.k + case.terms.ahead, f"too far ahead: {g}"
        if case.terms.tau is not None:
            bound = case.terms.tau(max(paper.t_glob(play.shares, g.client, g.round, g.h), 0))
            assert paper.t_delay(play.shares, g.client, g.round, g.h, g.k) <= bound, f"delay bound broken: {g}"


def delay_of_the_d_rule(terms: Terms) -> int:
    """The largest delay any label can have when nobody is more than d rounds ahead."""
    assert terms.ahead is not None
    return max(terms.before(i + 1) - 1 - terms.before(max(i - terms.ahead, 0)) for i in range(terms.rounds))


def is_consistent(parts: Parts, case: Case) -> None:
    """[thmalg], read off the models themselves: label t's model contains the updates 0 .. t - tau(t) - 1."""
    play = case.play(parts).run()
    tau = case.terms.tau
    if tau is None:
        delay = float(delay_of_the_d_rule(case.terms))
        tau = lambda t: delay  # noqa: E731
    found = paper.first_inconsistent(play.gradients, play.assignment, tau, play.excluded())
    assert found is None, f"inconsistent: (gradient, missing label) = {found}"


def keeps_own_work(parts: Parts, case: Case) -> None:
    """A client's model always contains every slot it has run and not lost: broadcasts throw nothing away."""
    play = case.play(parts).run()
    for c in range(case.terms.clients):
        done: set[int] = set()
        for g in (g for g in play.gradients if g.client == c):
            assert done <= g.contains, f"own work was thrown away: {sorted(done - g.contains)} at {g}"
            done.add(paper.rho(play.assignment, c, g.round, g.h))


# -- export and restore


def through_disk(state: dict[str, Any]) -> dict[str, Any]:
    """What is left of a state after numbers and lists went through JSON and arrays through npz, without pickle."""
    arrays: list[Any] = []

    def out(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            assert value.dtype != object, "an array of objects cannot be written"
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value), f"JSON turns the keys {list(value)} into text"
            return {key: out(item) for key, item in value.items()}
        if isinstance(value, list):
            return [out(item) for item in value]
        assert value is None or isinstance(value, bool | int | float | str), f"{type(value)} is not plain"
        return value

    text, buffer = json.dumps(out(state)), io.BytesIO()
    np.savez(buffer, *arrays)
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as read:

        def back(value: Any) -> Any:
            if isinstance(value, dict):
                return read[f"arr_{value['array']}"] if "array" in value else {k: back(v) for k, v in value.items()}
            return [back(item) for item in value] if isinstance(value, list) else value

        loaded: dict[str, Any] = back(json.loads(text))
    return loaded


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit, arrays in dtype and shape too."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def restored_every_turn(parts: Parts) -> Callable[[Play], None]:
    def restore(play: Play) -> None:
        play.server = parts.server.restore(play.terms, through_disk(play.server.export()))
        for seat in play.seats:
            seat.client = parts.client.restore(play.terms, through_disk(seat.client.export()))

    return restore


def continues_bit_for_bit(parts: Parts, case: Case) -> None:
    """A run whose server and clients are written down and read back before every turn is the same run."""
    straight = case.play(parts).run()
    broken = case.play(parts, restore=restored_every_turn(parts)).run()
    assert straight.history == broken.history, "another run after restore(export())"
    assert same(straight.server.export(), broken.server.export())
    for one, other in zip(straight.seats, broken.seats, strict=True):
        assert same(one.client.export(), other.client.export())


def exports_are_snapshots(parts: Parts, case: Case) -> None:
    """What was exported, and what was broadcast, does not change when the run goes on."""
    kept: list[tuple[Any, Any]] = []

    def keep(play: Play) -> None:
        states = [play.server.export(), *(seat.client.export() for seat in play.seats)]
        models = [message.model for to, message in play.pool if to >= 0]
        kept.extend((thing, through_disk({"it": thing})["it"]) for thing in [*states, *models])

    case.play(parts, restore=keep).run()
    assert all(same(thing, copy) for thing, copy in kept), "an export or a broadcast changed afterwards"


def name_of_bug(value: Any) -> str:
    """How a test that plants a bug is called: by the class or function it stands in, or by those among the parts."""
    if is_dataclass(value) and not isinstance(value, type):
        return "-".join(part.__name__ for part in vars(value).values() if part.__module__.startswith("tests"))
    return str(getattr(value, "__name__", ""))
