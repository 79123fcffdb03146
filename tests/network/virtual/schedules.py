"""Schedules: the federation of a seed and what goes wrong in it, drawn from weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

from tests.network.virtual.faults import Fault
from tests.network.virtual.federation import Shape

LONG = 100  # rounds
WEEK = 7 * 86_400.0

# kind: (weight at the server, at an aggregator, at a client)
WEIGHTS: dict[str, tuple[float, float, float]] = {
    "kill": (2, 3, 4),
    "power": (2, 1, 1),
    "kill in write": (3, 0, 3),
    "power in write": (3, 0, 1),
    "crash loop": (0.5, 0.5, 1.5),
    "freeze": (0.7, 0.7, 1),
    "drop": (1, 1, 3),
    "slow line": (0.5, 0.5, 1.5),
    "partition": (1, 1, 2.5),
    "disk full": (0.5, 0, 0),
    "disk errors": (0.7, 0, 0),
    "slow disk": (0.5, 0, 0.3),
    "older copy": (0.7, 0, 0),
    "move": (0, 0, 1),
}
LONG_KINDS = {"kill", "power", "freeze", "partition"}


@dataclass(frozen=True)
class Schedule:
    """A federation, its hostile members by what they do, and its faults. After ``quiet`` seconds nothing goes wrong any more."""

    shape: Shape
    faults: tuple[Fault, ...]
    quiet: float
    hostile: tuple[tuple[int, str], ...] = ()


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = Random(f"schedule {seed}")
    shape = _shape(rng)
    if shape.aggregators and shape.clients > 2:
        shape = _far(Random(f"far {seed}"), shape)
    quiet = shape.rounds * shape.round_takes * rng.choice((0.5, 1.0, 1.0, 2.0))
    hostile = tuple(_hostile(rng, shape))
    faults = _faults(rng, shape, quiet)
    if shape.rounds > LONG:
        away = _long_absence(rng, shape)
        faults, quiet = sorted([*faults, away]), max(quiet, away.at + away.lasts)
    quiet = max([quiet, *(fault.at + fault.lasts for fault in faults)])
    return Schedule(shape, tuple(faults), quiet, hostile)


def _far(rng: Random, shape: Shape) -> Shape:
    """Half of the trees: a server so far away that several updates wait at an aggregator for its word, and go on as one sum."""
    if rng.random() < 0.5:
        return shape
    return replace(shape, far=round(_between(rng, 1.0, 6.0), 3), round_takes=min(shape.round_takes, 15.0))


def _long_absence(rng: Random, shape: Shape) -> Fault:
    """A client is away for hundreds of rounds, with rounds on their way."""
    whole = shape.rounds * shape.round_takes
    at, lasts = rng.uniform(0.01, 0.1) * whole, rng.uniform(0.75, 0.9) * whole
    kind, number = rng.choice((("partition", 1.0), ("partition", 1.0), ("partition", 0.0), ("power", 0.0)))
    return Fault(round(at, 3), kind, f"client{rng.randrange(shape.clients)}", round(lasts, 3), number)


def _shape(rng: Random) -> Shape:
    clients = rng.choice((2, 2, 3, 3, 4, 5, 5))
    aggregators = rng.choice((0, 0, 0, 1, 2))
    kind = rng.random()
    rounds, features = rng.choice((12, 25, 40)), 4
    mechanism = rng.choice(("none", "minibatch", "local"))
    if kind < 0.14:  # long absences among many short rounds
        clients, rounds, mechanism = 2, rng.choice((350, 400)), "none"
    elif kind < 0.22:  # vectors that go in parts
        rounds, features, mechanism, clients = 12, 20_000, "none", min(clients, 3)
    round_takes = _between(rng, 4.0, 40.0) if rounds > LONG else _between(rng, 4.0, 600.0)
    if rounds < LONG and rng.random() < 0.06:  # some take weeks
        rounds, round_takes = 25, _between(rng, 1800.0, 14_400.0)
    absent_after = rng.choice((30.0, 60.0)) if round_takes < 300 else round_takes / 2
    hold_least = max(30.0, 2 * absent_after) * rng.choice((1, 2))
    hold_after = max(hold_least, 3 * round_takes) * rng.choice((1, 1, 2))
    return Shape(
        clients=clients,
        aggregators=aggregators,
        rounds=rounds,
        ahead=rng.choice((0, 1, 1, 3)),
        mechanism=mechanism,
        wire=rng.choice(("float64", "float32")),
        features=features,
        slots=2,
        round_takes=round_takes,
        hold_after=hold_after,
        hold_least=hold_least,
        absent_after=absent_after,
        prune=rng.random() < 0.3,
    )


def _hostile(rng: Random, shape: Shape) -> list[tuple[int, str]]:
    if shape.clients < 3 or rng.random() < 0.75:
        return []
    return [(shape.clients - 1, rng.choice(("hellos", "silent", "idle", "repeats", "nonsense")))]


def _faults(rng: Random, shape: Shape, quiet: float) -> list[Fault]:
    machines = [
        "server",
        *(f"aggregator{i}" for i in range(shape.aggregators)),
        *(f"client{c}" for c in range(shape.clients)),
    ]
    count = round(_between(rng, 3, 60))
    kinds = rng.sample(sorted(WEIGHTS), rng.randint(3, len(WEIGHTS)))  # a swarm: not every run has all of them
    favourite = rng.choice(machines) if rng.random() < 0.3 else None
    found: list[Fault] = []
    while len(found) < count:
        who = favourite if favourite is not None and rng.random() < 0.6 else rng.choice(machines)
        role = 0 if who == "server" else 1 if who.startswith("aggregator") else 2
        impossible = {"move": not shape.aggregators, "older copy": shape.rounds > LONG}
        weights = [WEIGHTS[kind][role] * (not impossible.get(kind)) for kind in kinds]
        if not any(weights):
            count -= 1
            continue
        (kind,) = rng.choices(kinds, weights)
        found.append(_fault(rng, kind, who, quiet))
        if found[-1].kind in LONG_KINDS and rng.random() < 0.4:
            found.append(_at_the_return(rng, found[-1]))
    return sorted(found)


def _at_the_return(rng: Random, away: Fault) -> Fault:
    """What goes wrong in the seconds in which a machine that was away comes back."""
    at = away.at + away.lasts
    match rng.choice(("kill in write", "kill", "drop", "drop", "slow line", "partition")):
        case "kill in write":
            kind, after, lasts, number = "kill in write", 0.01, 0.0, float(rng.randint(1, 20))
        case "kill":
            kind, after, lasts, number = "kill", _between(rng, 0.05, 20.0), _between(rng, 0.1, 10.0), 0.0
        case "drop":
            kind, after, lasts, number = "drop", _between(rng, 0.05, 5.0), 30.0, _between(rng, 0.1, 3.0)
        case "slow line":
            kind, after, lasts, number = "slow line", 0.0, _between(rng, 10.0, 100.0), _between(rng, 1000.0, 1e5)
        case _:
            kind, after, lasts, number = "partition", _between(rng, 0.1, 15.0), _between(rng, 1.0, 60.0), 1.0
    return Fault(round(at + after, 3), kind, away.who, round(lasts, 3), round(number, 3))


def _fault(rng: Random, kind: str, who: str, quiet: float) -> Fault:
    at = rng.uniform(0.0, 0.85 * quiet)
    lasts = min(_between(rng, 1.0, max(10.0, min(3 * WEEK, quiet))), quiet - at)
    number = 0.0
    match kind:
        case "kill in write" | "power in write":
            lasts, number = 0.0, rng.randint(1, 12)
        case "crash loop":
            number = _between(rng, 0.05, 30.0)
            lasts = min(lasts, 400 * (number + 5.0))
        case "drop":
            number = _between(rng, 1.0, 60.0)
            lasts = min(lasts, 200 * number)
        case "slow line":
            number = _between(rng, 1000.0, 1e6)
        case "partition":
            number = rng.choice((0, 0, 1, 2))
        case "disk errors":
            number, lasts = rng.randint(1, 3), 0.0
        case "slow disk":
            number = _between(rng, 0.1, 20.0)
        case "move":
            number, lasts = rng.randint(0, 2), 0.0
    return Fault(round(at, 3), kind, who, round(lasts, 3), round(float(number), 3))


def _between(rng: Random, low: float, high: float) -> float:
    """Drawn so that each order of magnitude comes as often."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))
