"""What a certificate must say, computed slowly and literally from the terms: draws, rounding, the reach of models, rare events.

The formulas are those at the top of `rounding`, `reach` and `certificate`, in other words: this shares no code with them. Of a
kind that somebody registered it knows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from crescendo.privacy.mechanisms.certificate import Certificate

_U = 2.0**-53
_RARE = 60 * math.log(10)  # -ln of the chance of a draw beyond its bound
_REACHED = 31.0  # -ln of the chance of each thing that is taken not to happen on the way to a model's length
_MOST_SLACK, _MOST_GRID = 1e-3, 2.0**50
_NEAR = 1e-9
MOST_NUMBERS = 2_000_000  # slots and rounds that are looked at one by one
_KINDS = ("minibatch", "local", "batch-clip")


@dataclass(frozen=True)
class _Client:
    """The most slots and the records that a round draws, and the least of its rounds' largest steps, blocks included."""

    slots: int
    drawn: float
    least: float


@dataclass(frozen=True)
class _Rounds:
    """Over all rounds and clients: the largest step and the least, blocks included, and lengths that models reach."""

    largest: float
    lowest: float
    rate: float
    clients: tuple[_Client, ...]
    least: float
    most: float


def denied(certificate: Certificate) -> str | None:
    """The first number that is not what the terms make it."""
    if certificate.mechanism not in _KINDS or _too_many(certificate):
        return None
    for name, said, low, high in _due(certificate):
        if not low * (1 - _NEAR) <= said <= high * (1 + _NEAR):
            return f"its {name} is {said:.17g}, and the terms make it {low:.17g}" + (
                f" to {high:.17g}" if high > low else ""
            )
    for condition in certificate.conditions:
        if not condition.left <= condition.right and condition.name != "step sizes":
            return f"it was given though {condition.name!r} does not hold: {condition.left:.6g} against {condition.right:.6g}"
    return None


def _too_many(certificate: Certificate) -> bool:
    terms = certificate.terms
    return terms.rounds * terms.clients > MOST_NUMBERS // 100 or terms.before(terms.rounds) > MOST_NUMBERS


def _due(certificate: Certificate) -> Iterator[tuple[str, float, float, float]]:
    """Name, what the certificate says, and the least and the most that it may say."""
    terms, kind, d = certificate.terms, certificate.mechanism, certificate.objective.size
    found = _looked_at(certificate)
    widest = _two_digits(found.most * (1 + _NEAR))
    wide = kind != "local" or _fits(replace(certificate, model_bound=widest), found)
    least = found.most if wide else found.least  # all that a run reaches, unless rounding allows for less
    yield "model bound", certificate.model_bound, _two_digits(least / (1 + _NEAR)), widest
    clip = certificate.clip
    if certificate.layers is not None:
        length = math.hypot(*(one for _, one in certificate.layers.layers))
        yield "clip", clip, length, length
    slack, unit = _rounding(certificate, found)
    yield "unit", certificate.unit or 0.0, unit, unit
    yield "slack", certificate.slack, slack, slack
    grid = _grid_steps(certificate, found)
    yield "slack, which may be 0.001 at most,", slack, 0.0, _MOST_SLACK
    yield "number to be hidden, in steps of the grid,", grid, 0.0, _MOST_GRID
    certain = all(one.drawn >= 2 * n for one, n in zip(found.clients, certificate.records, strict=True))
    rare = 1.001 * terms.rounds * ((0.0 if certain else math.exp(-_RARE)) + d * 2.0**-500)
    yield "chance of failure", certificate.failure, rare, rare
    yield "largest rate", found.rate, 0.0, 1.0
    shrink = found.largest * certificate.objective.traits.l2
    limit = 2 / _bend(certificate) if kind == "local" else math.inf
    if kind != "batch-clip":
        yield "largest step times l2", shrink, 0.0, 1.0
        yield "largest step", found.largest, 0.0, limit
    yield "least step", found.lowest, 1e-60, 1e60
    due = {
        "sampling rate": (found.rate, 1.0),
        "non-expansive steps": (found.largest, limit),
        "shrink": (shrink, 1.0),
        "rounding": (slack, _MOST_SLACK),
        "grid": (grid, _MOST_GRID),
        "step sizes": (min(one.least for one in found.clients), 1e-60),
    }
    for condition in certificate.conditions:
        left, right = due.get(condition.name, (condition.left, condition.right))
        yield f"left side of {condition.name!r}", condition.left, left, left
        yield f"right side of {condition.name!r}", condition.right, right, right
    sigmas = _sigmas(certificate)
    yield "least sigma", certificate.sigma.least, min(sigmas), min(sigmas)
    yield "largest sigma", certificate.sigma.most, max(sigmas), min(max(sigmas), 1e6)
    for i in (0, terms.rounds // 2, terms.rounds - 1):
        for c, records in enumerate(certificate.records[:4]):
            share = terms.share(i, c)
            rate = -(-share * 2**53 // records) / 2**53
            yield f"rate of client {c} in round {i}", certificate.rate(i, c), rate, rate
            step = max(map(abs, terms.etas(i, c)), default=0.0) * terms.blocks
            change = (2 * clip if kind == "batch-clip" else step * clip if share else 0.0) * (1 + slack)
            yield f"sensitivity of client {c} in round {i}", certificate.sensitivity(i, c), change, change
            noise = sigmas[i] * change
            yield f"noise of client {c} in round {i}", certificate.noise_scale(i, c), noise, noise
    yield from _charged(certificate)


def _charged(certificate: Certificate) -> Iterator[tuple[str, float, float, float]]:
    """Every round with a share is charged at its rate and sigma, in the plan as by itself, and no other is."""
    terms, sigmas = certificate.terms, _sigmas(certificate)
    for c, records in enumerate(certificate.records[:4]):
        plan = certificate.plan(c)
        shares = [terms.share(i, c) for i in range(terms.rounds)]
        sent = float(np.count_nonzero(shares))
        yield f"number of rounds that client {c} is charged for", len(certificate.events(c)), sent, sent
        for i in sorted({*range(min(8, len(shares))), len(shares) // 2, len(shares) - 1}):
            for event in (plan[i], certificate.event(i, c)):
                where = f"of round {i} of client {c}"
                rate = -(-shares[i] * 2**53 // records) / 2**53
                yield f"rate {where}", 0.0 if event is None else event.rate, rate, rate
                if event is not None:
                    yield f"sigma {where}", event.sigma, sigmas[i], sigmas[i]


def _looked_at(certificate: Certificate) -> _Rounds:
    """Every round of every client, one by one."""
    terms, clip, l2 = certificate.terms, certificate.clip, certificate.objective.traits.l2
    whole, part = certificate.mechanism == "batch-clip", 1 / terms.clients if terms.combine == "mean" else 1.0
    slots, least = [0] * terms.clients, [math.inf] * terms.clients
    largest, lowest, rate, sigmas = 0.0, math.inf, 0.0, _sigmas(certificate)
    sums = np.zeros(3)  # steps, their squares, the noise's squares: each pulled back by l2 in every round
    top, longest = np.zeros(3), 0.0
    for i in range(terms.rounds):
        steps = [np.abs(terms.etas(i, c)) * terms.blocks for c in range(terms.clients)]
        active = [c for c in range(terms.clients) if len(steps[c])]
        if not active:
            continue
        for c in active:
            slots[c], least[c] = max(slots[c], len(steps[c])), min(least[c], float(steps[c].max()))
            rate = max(rate, len(steps[c]) / certificate.records[c])
        largest = max(largest, *(float(steps[c].max()) for c in active))
        lowest = min(lowest, *(float(steps[c].min()) for c in active))
        if whole:
            h, count, changed, kept = clip * part, len(active), 2 * clip * part, 1.0
        else:
            h = max(float(steps[c].max()) for c in active) * clip * part
            count, changed, kept = sum(len(steps[c]) for c in active), h, 1.0
            if terms.blocks == 1 and l2 > 0:
                decay = min(1.0, min(float(steps[c].min()) for c in active) * l2)
                kept = 1 - min(1.0, part * sum(1 - (1 - decay) ** len(steps[c]) for c in active))
        noise = len(active) * (1.001 * sigmas[i] * changed) ** 2
        sums = np.array([kept, kept**2, kept**2]) * sums + np.array([h * count, h**2 * count, noise])
        top, longest = np.maximum(top, sums), max(longest, h)
    numbers = -(-certificate.objective.size // terms.blocks)
    root = math.sqrt(2 * _REACHED)
    by_noise = _first(certificate) + math.sqrt(top[2]) * (math.sqrt(numbers) + root)
    most = 2 * (by_noise + top[0] + root * math.sqrt(top[1]) + _REACHED * longest)
    drawn = [_most_drawn(s, n) for s, n in zip(slots, certificate.records, strict=True)]
    clients = tuple(_Client(*one) for one in zip(slots, drawn, least, strict=True))
    return _Rounds(largest, lowest, rate, clients, by_noise, most)


def _first(certificate: Certificate) -> float:
    from crescendo.core.random import Purpose, stream

    known, terms = certificate.objective.traits.first_length, certificate.terms
    if known is not None:
        return known
    return math.hypot(*np.asarray(certificate.objective.initial(stream(terms.seed, Purpose.INIT)), dtype=np.float64))


def _most_drawn(slots: int, records: int) -> float:
    """Bernstein's bound on a draw of a client with up to twice the records that it declared."""
    mean = min(2.0 * slots, 2.0 * records)
    beyond = _RARE / 3 + math.sqrt(_RARE**2 / 9 + 2 * _RARE * mean)
    return min(2.0 * records, math.ceil(mean + beyond))


def _bend(certificate: Certificate) -> float:
    """How smooth a clipped loss is."""
    bend = certificate.objective.traits.margin
    assert bend is not None and certificate.norm_bound is not None
    return bend(certificate.norm_bound, certificate.clip)


def _rounding(certificate: Certificate, found: _Rounds) -> tuple[float, float]:
    """The share that rounding adds to what one record changes, and the unit of gradients, 0 for none."""
    clip, d, m = certificate.clip, certificate.objective.size, max(one.drawn for one in found.clients)
    if certificate.mechanism == "minibatch":
        bits = min(40, 51 - math.ceil(math.log2(max(m, 1.0))))
        unit = 2.0 ** (math.floor(math.log2(clip)) - bits)
        return math.sqrt(d) / 2 * unit / clip + (d + 8 + 4 * m + 16) * _U, unit
    if certificate.mechanism == "batch-clip":
        return (d + 24) * _U, 0.0
    steepness, worst = min(2.0, found.largest * _bend(certificate)), 0.0
    for one in found.clients:
        b = _in_steps(certificate, one)
        margins = (steepness * (d + 3) + 2) * (one.drawn * b + one.drawn * (one.drawn + 1) / 2) + 16 * one.drawn
        both = 2 * (margins + 2 * one.slots * (b + one.drawn))
        worst = max(worst, both + 4 * (b + one.drawn) + d + 24)
    return worst * _U, 0.0


def _in_steps(certificate: Certificate, one: _Client) -> float:
    """The longest start model over what the client's least step may move it by."""
    return (1 + 1e-9) * certificate.model_bound / (one.least * certificate.clip)


def _grid_steps(certificate: Certificate, found: _Rounds) -> float:
    """The largest number to be hidden, in steps of the finest grid."""
    if certificate.mechanism == "batch-clip":
        hidden = 0.51
    else:
        moved = max(_in_steps(certificate, one) for one in found.clients) if certificate.mechanism == "local" else 0.0
        hidden = 1.01 * max(one.drawn for one in found.clients) + moved
    return hidden * 2.0**21 / min(_sigmas(certificate))


def _fits(certificate: Certificate, found: _Rounds) -> bool:
    """Whether rounding allows for start models of this length."""
    return _rounding(certificate, found)[0] <= _MOST_SLACK and _grid_steps(certificate, found) <= _MOST_GRID


def least_sigma(certificate: Certificate) -> float:
    """The least noise of which a grid is fine enough for what is hidden, of a mechanism that hides no part of the model."""
    return _grid_steps(certificate, _looked_at(certificate)) * min(_sigmas(certificate)) / _MOST_GRID


def _sigmas(certificate: Certificate) -> list[float]:
    """Of every round; the last that is listed goes on."""
    listed = [sigma for rounds, sigma in certificate.sigma.steps for _ in range(min(rounds, certificate.terms.rounds))]
    rounds = certificate.terms.rounds
    return listed[:rounds] + listed[-1:] * (rounds - len(listed))


def _two_digits(length: float) -> float:
    """Rounded up to two digits.

    >>> _two_digits(123.4), _two_digits(0.0456), _two_digits(0.0), _two_digits(20.0)
    (130.0, 0.046, 0.0, 20.0)
    """
    from decimal import ROUND_CEILING, Context, Decimal

    return float(Context(prec=2, rounding=ROUND_CEILING).create_decimal(Decimal(length)))
