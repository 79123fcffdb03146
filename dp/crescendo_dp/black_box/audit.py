"""Audit of a callable mechanism: attack it for a while, and return a lower bound on its epsilon."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from crescendo_dp.arrays import Array
from crescendo_dp.black_box.attack import BlackBoxReport, Claim, Progress, attack
from crescendo_dp.black_box.callable_mechanism import CallableMechanism
from crescendo_dp.black_box.example_records import example_canaries, example_records
from crescendo_dp.black_box.neighbours import Neighbours, Pair, pairs
from crescendo_dp.errors import ConfigError, CrescendoError

LEAST_RUNS, MOST_RUNS = 1_000, 10**8
MOST_TIMED_RUNS = 4_000_000  # that a default audit makes, if the mechanism is fast
_WARM = 20  # calls before the clock is read, and then calls that are timed


def audit(
    mechanism: Any,
    epsilon: float,
    delta: float,
    *,
    records: Any = None,
    canaries: Any = None,
    neighbours: Neighbours | None = None,
    runs: int | None = None,
    seconds: float = 20.0,
    confidence: float = 0.999,
    gaussian: bool = False,
    floats: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> BlackBoxReport:
    """Attack ``mechanism(records, rng) -> release``, which claims to be (epsilon, delta) private.

    A sound mechanism fails with probability ``1 - confidence`` at most. ``records`` are examples, one per row, and ``canaries``
    the records that are added to them (``neighbours="add"``) or take the place of the last (``"replace"``); by default both are
    made up. A mechanism may have ``records``, ``canaries`` and ``neighbours`` as attributes, and ``many(records, rng, runs)``,
    which returns that many releases at once. Without ``runs`` the audit makes as many as ``seconds`` of processor time allow.
    ``gaussian`` computes the tails of releases known to be Gaussian; ``floats`` attacks the last bits of floats as well.

    >>> def too_little_noise(records, rng):
    ...     return np.clip(records, -1, 1).sum() + rng.laplace(scale=0.5)      # epsilon is 2
    >>> found = audit(too_little_noise, epsilon=1.0, delta=0.0, records=np.ones((5, 1)), runs=20_000)
    >>> found.passed, 1.0 < found.lower <= 2.0
    (False, True)
    """
    claim = Claim(epsilon, delta, confidence, gaussian=gaussian, floats=floats)
    check(claim, runs, seconds)
    name = getattr(mechanism, "__name__", type(mechanism).__name__)
    made = instance(mechanism, name)
    data = example_records(records if records is not None else getattr(made, "records", None))
    own = canaries if canaries is not None else getattr(made, "canaries", None)
    return attacked(
        made,
        claim,
        data,
        own,
        neighbours,
        name=name,
        label=name,
        runs=runs,
        seconds=seconds,
        seed=seed,
        progress=progress,
    )


def attacked(
    mechanism: Any,
    claim: Claim,
    records: Array,
    canaries: Any,
    neighbours: Neighbours | None,
    *,
    name: str,
    label: str,
    runs: int | None,
    seconds: float,
    seed: int,
    progress: Progress | None,
    clock: Callable[[], float] | None = None,
) -> BlackBoxReport:
    """Attack an `instance`. Errors call it ``name``, the report calls it ``label``."""
    with np.errstate(all="ignore"):
        claim = replace(claim, neighbours=_known(neighbours or getattr(mechanism, "neighbours", "add")))
        chosen = pairs(records, claim.neighbours, example_canaries(canaries, records))
        called = CallableMechanism(name, mechanism, getattr(mechanism, "many", None))
        count = runs if runs is not None else _affordable(called, chosen[0], seconds, clock or _spent())
        return attack(label, called.run, chosen, claim, runs=count, seed=seed, progress=progress)


def check(claim: Claim, runs: int | None, seconds: float, option: str = "") -> None:
    """Refuse a claim or a length that no audit can test; ``option`` is how a command line begins its names."""
    rules = (
        (0 <= claim.epsilon < float("inf"), f"epsilon is a finite number, 0 or more, not {claim.epsilon:g}"),
        (0 <= claim.delta < 1, f"delta is 0 or more and below 1, not {claim.delta:g}"),
        (
            not claim.gaussian or claim.delta != 0,
            f"gaussian needs a {option}delta above 0: Gaussian noise gives no epsilon without one",
        ),
        (0.5 <= claim.confidence < 1, f"confidence lies between 0.5 and 1, not {claim.confidence:g}"),
        (
            runs is None or LEAST_RUNS <= runs <= MOST_RUNS,
            f"runs of a mechanism lies between {LEAST_RUNS:,} and {MOST_RUNS:,}, not {runs or 0:,}",
        ),
        (0 < seconds <= 1e6, f"seconds is a number above 0, at most a million, not {seconds:g}"),
    )
    for holds, says in rules:
        if not holds:
            raise ConfigError(f"{option}{says}")


def _known(neighbours: Any) -> Neighbours:
    if neighbours not in ("add", "replace"):
        raise ConfigError(f'neighbours is "add" or "replace", not {neighbours!r}')
    return neighbours  # type: ignore[no-any-return]


def instance(found: Any, kind: str) -> Any:
    """Return the mechanism itself, an instance where ``found`` is a class."""
    if inspect.isclass(found):
        try:
            found = found()
        except CrescendoError:
            raise
        except (Exception, SystemExit) as error:
            says = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"{kind} could not be made without arguments: {says}") from error
    if not callable(found):
        raise ConfigError(
            f"{kind} is a {type(found).__name__} and cannot be called; name a function (records, rng) -> release"
        )
    return found


def _spent() -> Callable[[], float]:
    """Start a clock of this process's work: a busy machine does not weaken the attack. It counts a mostly idle wait too."""
    busy, began = time.process_time(), time.perf_counter()
    return lambda: max(time.process_time() - busy, (time.perf_counter() - began) / 4)


def _affordable(mechanism: CallableMechanism, pair: Pair, seconds: float, clock: Callable[[], float]) -> int:
    """Return the number of runs that fit into the time, fixed before the first release so that no release can change it."""
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.arange(_WARM) % 2 == 0
    mechanism.run(pair, coins, rng)
    calls, began = 0, clock()
    while calls < 50 * _WARM and (not calls or clock() - began < min(1.0, seconds / 10)):
        mechanism.run(pair, coins, rng)
        calls += _WARM
    each = max((clock() - began) / calls, 1e-9)
    return int(min(max(seconds / each, LEAST_RUNS), MOST_TIMED_RUNS))
