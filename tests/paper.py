"""The paper's algorithms, slow and literal: the oracle that the fast code is held to.

Nothing here is clever and nothing comes from `crescendo`: lists are searched from end to end, sums are added up anew each
time, the wait loop is the paper's. Where the paper is wrong the correction is the one of the specification and is marked
"(not the paper)". Plain arguments only: ``shares[i][c]`` is s_{i,c}, and s_i is the sum of ``shares[i]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Shares = Sequence[Sequence[int]]
Pair = tuple[int, int]  # (round, client)


def size(shares: Shares, first: int, last: int) -> int:
    """s_first + .. + s_last, rounds below 0 counting nothing.

    >>> size([[1, 1], [2, 2], [3, 3]], 1, 2), size([[1, 1]], 1, 0)
    (10, 0)
    """
    return sum(sum(shares[i]) for i in range(max(first, 0), last + 1))


# -- Paper [alg:server] ------------------------------------------------------------------------------------------------


class PaperServer:
    """[alg:server]: queue Q, processed pairs H, broadcast counter k.

    Not the paper: rounds complete in a `while`; a repeated pair is skipped; a share of 0 counts as arrived; a pair may be void;
    absent clients hold nothing up, and while nobody is present nothing advances; k ends at the number of rounds.
    """

    def __init__(self, model: Vector, shares: Shares, present: Iterable[int] | None = None) -> None:
        self.v, self.k, self.shares = model.copy(), 0, shares
        self.Q: list[tuple[Any, ...]] = []
        self.H: list[Pair] = []
        self.applied: list[Pair] = []  # every pair whose update is in v, in the order applied
        self.void: list[Pair] = []
        self.excused: list[Pair] = []  # pairs that were missing when their round was passed
        self.present = list(range(len(shares[0])) if present is None else present)
        self.broadcasts: list[tuple[Vector, int]] = []

    def isr_receive(self, *message: Any) -> None:
        self.Q.append(message)
        self.main()

    def main(self) -> None:
        while self.Q:
            kind, *rest = self.Q.pop(0)
            getattr(self, "on_" + kind)(*rest)
            while self.k < len(self.shares) and self.present and self.round_is_complete(self.k):
                for c in range(len(self.shares[self.k])):
                    if not self.arrived(self.k, c):
                        self.excused.append((self.k, c))
                self.H = [pair for pair in self.H if pair[0] != self.k]
                self.k += 1
                self.broadcasts.append((self.v.copy(), self.k))

    def arrived(self, i: int, c: int) -> bool:
        return (i, c) in self.H or (i, c) in self.void or self.shares[i][c] == 0

    def round_is_complete(self, i: int) -> bool:
        return all(self.arrived(i, c) for c in self.present)

    def on_update(self, i: int, c: int, delta: Vector) -> None:
        if (i, c) in self.applied or (i, c) in self.void:
            return
        self.v = self.v - delta
        self.H.append((i, c))
        self.applied.append((i, c))

    def on_void(self, i: int, c: int) -> None:
        if (i, c) not in self.applied and (i, c) not in self.void:
            self.void.append((i, c))

    def on_absent(self, c: int) -> None:
        if c in self.present:
            self.present.remove(c)

    on_leave = on_absent

    def on_back(self, c: int, last: int) -> None:
        for i in range(last + 1, self.returns_at(last)):
            self.on_void(i, c)
        if c not in self.present:
            self.present.append(c)

    def returns_at(self, last: int) -> int:
        return max(self.k, last + 1)

    def rounds_of(self, c: int) -> list[int]:
        """The rounds of c of which nothing more will come: in v, or void, or without a share."""
        return [i for i in range(len(self.shares)) if self.shares[i][c] == 0 or {(i, c)} & {*self.applied, *self.void}]


def paper_server(model: Vector, updates: Iterable[tuple[int, int, Vector]], shares: Shares) -> PaperServer:
    """The server after these (round, client, delta) in this order.

    >>> v = paper_server(np.zeros(1), [(0, 0, np.ones(1)), (1, 0, np.ones(1)), (0, 0, np.ones(1))], [[1], [1]])
    >>> v.v, v.k
    (array([-2.]), 2)
    """
    server = PaperServer(model, shares)
    for i, c, delta in updates:
        server.isr_receive("update", i, c, delta)
    return server


# -- Paper [alg:client] ------------------------------------------------------------------------------------------------


def t_glob(shares: Shares, c: int, i: int, h: int) -> int:
    return size(shares, 0, i) - (shares[i][c] - h) - 1


def t_delay(shares: Shares, c: int, i: int, h: int, k: int) -> int:
    return size(shares, k, i) - (shares[i][c] - h)


@dataclass
class Rule:
    """The wait loop's condition: by the delay function, or by rounds (exactly one of the two is given)."""

    tau: Callable[[float], Any] | None = None
    d: int | None = None

    def must_wait(self, shares: Shares, c: int, i: int, h: int, k: int) -> bool:
        if self.tau is None:
            assert self.d is not None
            return i > k + self.d  # not the paper, whose "i = k + d" makes d = 1 synchronous
        return bool(self.tau(max(t_glob(shares, c, i, h), 0)) <= t_delay(shares, c, i, h, k))

    def allowed(self, shares: Shares, c: int, i: int, k: int) -> int:
        """Slots of round i that client c can run while no broadcast after k comes: up to the first it must wait for."""
        for h in range(shares[i][c]):
            if self.must_wait(shares, c, i, h, k):
                return h
        return shares[i][c]


class PaperClient:
    """[alg:client], with displacements in the place of eta * U, and own updates on the way subtracted (not the paper)."""

    def __init__(self, me: int, model: Vector, shares: Shares, rule: Rule) -> None:
        self.me, self.shares, self.rule = me, shares, rule
        self.i, self.h, self.k, self.U = 0, 0, 0, np.zeros_like(model)
        self.v, self.yours = model.copy(), list[int]()  # newest broadcast, and my rounds it contains
        self.sent: list[tuple[int, Vector]] = []

    def isr_receive(self, v: Vector, k: int, yours: Collection[int]) -> None:
        if k > self.k:
            self.v, self.k, self.yours = v.copy(), k, list(yours)

    def w(self) -> Vector:
        w = self.v
        for i, delta in self.sent:
            if i not in self.yours:
                w = w - delta
        return w - self.U

    def done(self) -> bool:
        return all(self.shares[i][self.me] == 0 for i in range(self.i, len(self.shares)))

    def skip_empty_rounds(self) -> None:
        while self.i < len(self.shares) and self.shares[self.i][self.me] == 0:
            self.i += 1

    def must_wait(self) -> bool:
        return self.rule.must_wait(self.shares, self.me, self.i, self.h, self.k)

    def slot(self, step: Callable[[Vector], Vector]) -> tuple[int, int, Vector] | None:
        """One turn of the inner loop; at the round's end, the message (i, c, displacement)."""
        assert not self.must_wait()
        self.U = self.U + step(self.w())
        self.h += 1
        if self.h < self.shares[self.i][self.me]:
            return None
        message = (self.i, self.me, self.U)
        self.sent.append((self.i, self.U))
        self.i, self.h, self.U = self.i + 1, 0, np.zeros_like(self.U)
        return message


# -- step sizes --------------------------------------------------------------------------------------------------------


def slot_label(shares: Shares, weights: Sequence[float], c: int, i: int, h: int) -> Fraction:
    """The t of "diminishing_1" for slot h of client c in round i: its own slots so far, over its share of all slots.

    The paper has n times the own slots, for equal shares; the division by p_c is not the paper's.

    >>> [int(slot_label([[2, 2], [3, 3]], [0.5, 0.5], 0, 1, h)) for h in range(3)], 4 + 2 * 2
    ([4, 6, 8], 8)
    """
    own = sum(shares[j][c] for j in range(i)) + h
    return own / Fraction(weights[c])


# -- Paper [thmsc] with the D of [app-rec], and [appconst] -----------------------------------------------------------------


def theorem_m1(d: int, L: float, mu: float, s0: int, D: int) -> float:
    """M1 = max(d+1, 2 L alpha D / mu, s_0 / 2), so that E = 2 tau(t) >= 4 L alpha D / mu ([thmsc] itself has D = 1)."""
    return sorted([d + 1, 2 * L * 36 * D / mu, s0 / 2])[-1]


def theorem_bound(t: int, G: float, mu: float, m: int, m1: float, D: int) -> float:
    """Twice 4 alpha^2 D N / mu^2 * t / (t + E - 1)^2, with E = 2 tau(t)."""
    M0 = (m + 1) ** 2 / 4
    E = 2 * m1 + math.sqrt((t + M0) / math.log(t + M0))
    return 2 * (4 * 36**2 * D * G / mu**2) * t / (t + E - 1) ** 2


def exponent_of_T0(L: float, mu: float) -> float:
    """T_0 = exp[2 sqrt(Delta) (1 + (L + mu) alpha / mu)], with Delta = 1."""
    return 2 * math.sqrt(1) * (1 + (L + mu) * 36 / mu)


def largest_a(L: float, mu: float, tau: int) -> float:
    """[appconst]'s limit on a = eta L, with Delta = 1."""
    return 1 / (5 * (1 + 2 * tau * math.sqrt(1)) * math.sqrt(1 + mu / (2 * L) * min(1 / math.sqrt(1), tau)))


def constant_step_bound(t: int, first: float, G: float, eta: float, L: float, mu: float, tau: int) -> float:
    """2 (1 - rho)^t |w_0 - w*|^2 + b; rho = a mu / L where the paper prints a L / mu (not the paper)."""
    a, C1 = eta * L, 1 + math.sqrt(1) * tau
    C2 = math.sqrt(1) + eta * mu * C1
    b = (4 * eta * (C1 + tau * C2) / mu + 2 * eta**2 * C1 * tau) * G
    return 2 * (1 - a * mu / L) ** t * first + b


# -- stability (not the paper) ----------------------------------------------------------------------------------------


def lock_step_round(v: float, h: float, eta: float, shares: Sequence[int], a: float) -> float:
    """One round on the loss h w^2 / 2: every client takes its steps from v, and v moves by a times the sum of what they moved."""
    moved = 0.0
    for s in shares:
        w = v
        for _ in range(s):
            w = w - eta * h * w
        moved += v - w
    return v - a * moved


def late_rounds(push: float, d: int, rounds: int) -> list[float]:
    """v_{k+1} = v_k - push v_{k-d}, from 1: every update was computed on a model d rounds old."""
    v = [1.0] * (d + 1)
    for _ in range(rounds):
        v.append(v[-1] - push * v[-1 - d])
    return v


# -- Paper [thmalg] ----------------------------------------------------------------------------------------------------


def rho(assignment: Sequence[Sequence[int]], c: int, i: int, h: int) -> int:
    """The label of client c's slot h of round i, h from 0 (the paper's own h is off by one).

    >>> [rho([[0, 1], [1, 0, 1]], 1, 1, h) for h in (0, 1)]
    [2, 4]
    """
    entries = [t for t, client in enumerate(assignment[i]) if client == c]
    return sum(len(row) for row in assignment[:i]) + entries[h]


def labels(assignment: Sequence[Sequence[int]], pairs: Iterable[Pair]) -> set[int]:
    """The labels of all slots of these (round, client)."""
    return {rho(assignment, c, i, h) for i, c in pairs for h in range(list(assignment[i]).count(c))}


@dataclass(frozen=True)
class Gradient:
    """A gradient that was computed: where, with which broadcast, and the labels of the updates its model contained."""

    client: int
    round: int
    h: int
    k: int
    contains: frozenset[int]


def first_inconsistent(
    gradients: Iterable[Gradient],
    assignment: Sequence[Sequence[int]],
    tau: Callable[[float], Any],
    excluded: Collection[int] = (),
) -> tuple[Gradient, int] | None:
    """[thmalg]: the model of label t contains the updates 0 .. t - tau(t) - 1. The first (gradient, label) that lacks one."""
    for gradient in gradients:
        t = rho(assignment, gradient.client, gradient.round, gradient.h)
        for j in range(t):
            if j <= t - tau(t) - 1 and j not in gradient.contains and j not in excluded:
                return gradient, j
    return None


# -- SGD ---------------------------------------------------------------------------------------------------------------


def logistic_gradient(w: Vector, x: Vector, y: float, l2: float, intercept: bool) -> Vector:
    """The gradient of ln(1 + exp(-y w.x)) + l2/2 |w|^2 for one record; the intercept is the last coordinate.

    A record of class 0 has y = -1.
    """
    x, y = np.append(x, 1.0) if intercept else x, 1.0 if y > 0 else -1.0
    gradient: Vector = -y * x / (1.0 + np.exp(y * float(w @ x))) + l2 * w
    return gradient


def textbook_sgd(
    w: Vector, x: Vector, y: Vector, rows: Sequence[int], etas: Sequence[float], l2: float, intercept: bool = True
) -> Vector:
    """w <- w - eta gradient, record after record."""
    for row, eta in zip(rows, etas, strict=True):
        w = w - eta * logistic_gradient(w, x[row], y[row], l2, intercept)
    return w
