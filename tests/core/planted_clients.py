"""Clients, terms and streams with one bug each. The docstring is the bug; `test_planted_bugs` says which property must see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crescendo.core.client import Client, Done, Work
from crescendo.core.messages import Broadcast, Settled, Update
from crescendo.core.random import Purpose
from crescendo.core.terms import Terms

Floats = npt.NDArray[np.float64]


class IgnoresYours(Client):
    """Own updates are subtracted from every broadcast, also those it contains."""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        return super().receive(Broadcast(broadcast.model, broadcast.k, Settled(0), broadcast.epoch))


class ThrowsOwnWorkAway(Client):
    """The paper's client: a broadcast replaces the model, own updates on the way are lost from it."""

    def _own_view(self) -> Floats:
        return self._base.copy()


class LosesTheUnfinishedRound(Client):
    """A broadcast in mid-round moves the local model, but not the frame that the displacement is measured from."""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        frame = self._frame
        shift = super().receive(broadcast)
        self._frame = frame
        return shift


class StaysWhereItIs(Client):
    """A broadcast in mid-round is taken in without moving the local model along."""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        super().receive(broadcast)
        return None


class NeverHearsOfK(Client):
    """A broadcast's model is taken in, its counter is not."""

    def receive(self, broadcast: Broadcast) -> Floats | None:
        k = self.k
        shift = super().receive(broadcast)
        self.k = k
        return shift


class BelievesOldNews(Client):
    """Any broadcast is taken in, in the order of arrival."""

    def _newest(self) -> tuple[int, int]:
        return (-1, -1)


class SendsNothingAgain(Client):
    """What the network lost stays lost."""

    def unacknowledged(self) -> list[Update]:
        return []


class RunsASlotTooFar(Client):
    """The wait rule is off by one: one slot, or one round, more than allowed."""

    def __init__(self, terms: Terms, me: int, model: Any) -> None:
        more: Any = {"ahead": terms.ahead + 1} if terms.ahead is not None else {"tau": Shifted(terms.tau, 1.0)}
        super().__init__(replace(terms, **more), me, model)


class StopsASlotShort(Client):
    """The wait rule is off by one the other way, so that the tightest live schedule stands still."""

    def __init__(self, terms: Terms, me: int, model: Any) -> None:
        less: Any = {"ahead": max(terms.ahead - 1, 0)} if terms.ahead is not None else {"tau": Shifted(terms.tau, -1.0)}
        super().__init__(replace(terms, **less), me, model)


class WorksWhileItShouldWait(Client):
    """No wait rule at all."""

    def __init__(self, terms: Terms, me: int, model: Any) -> None:
        super().__init__(replace(terms, ahead=terms.rounds, tau=None), me, model)


class StopsBeforeTheLastRound(Client):
    """The last round is never done."""

    def next(self) -> Any:
        said = super().next()
        return Done() if isinstance(said, Work) and said.round == self.terms.rounds - 1 else said


class ForgetsItsFrame(Client):
    """The export lacks where the round in hand started."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "frame": None if self._frame is None else self._base.copy()}


class ForgetsWhatItSent(Client):
    """The export lacks the updates on the way."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "sent": [], "sent_rounds": []}


class ForgetsYours(Client):
    """The export lacks which of its rounds the base contains."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "yours": [0, []]}


@dataclass(frozen=True)
class Shifted:
    tau: Any
    by: float

    def __call__(self, t: Any) -> Any:
        return self.tau(t) + self.by


# -- terms


class RoundedShares(Terms):
    """Each share is rounded by itself."""

    def _shares(self, i: int) -> Any:
        return np.rint(np.array(self.weights) * self.sizes(i)).astype(np.int64)


class LeftOverToTheLast(Terms):
    """All are rounded down and the last client gets what is left: an exact sum, far from p_c s_i."""

    def _shares(self, i: int) -> Any:
        shares = np.floor(np.array(self.weights) * self.sizes(i)).astype(np.int64)
        shares[-1] += self.sizes(i) - shares.sum()
        return shares


class TheSameUniformEachRound(Terms):
    """The public uniform does not depend on the round: the same clients always win."""

    def _shares(self, i: int) -> Any:
        bounds = np.floor(self._cumulative * self.sizes(i) + 0.5).astype(np.int64)
        return np.diff(np.minimum(bounds, self.sizes(i)))


class TheSameCoinsEachRound(Terms):
    """Coin shares are drawn once."""

    def _shares(self, i: int) -> Any:
        return super()._shares(0)


class UnevenCoins(Terms):
    """Coins fall as expected shares do: the right mean, no variance."""

    def _shares(self, i: int) -> Any:
        expected = Terms(
            self.sizes, self.steps, self.weights, self.rounds, ahead=0, shares_by="expected", seed=self.seed
        )
        return expected._shares(i)


class DealsToTheNext(Terms):
    """The assignment gives every entry to the next client."""

    def assignment(self, i: int) -> Any:
        return (super().assignment(i) + 1) % self.clients


class RemembersTheOrderOfQuestions(Terms):
    """Shares depend on what was asked before."""

    def _shares(self, i: int) -> Any:
        return np.roll(super()._shares(i), len(self._cache))


class WaitsAtEquality(Terms):
    """The wait rule with < in the place of <=."""

    def _may_run(self, i: int, k: int, slots: int, h: int) -> bool:
        t_glob, t_delay = self.clock(i, k, slots, h)
        assert self.tau is not None
        return bool(self.tau(max(t_glob, 0)) >= t_delay)


class ThePapersD(Terms):
    """i < k + d, by which d = 1 is synchronous."""

    def allowed(self, i: int, k: int, c: int) -> int:
        return super().allowed(i, k, c) if self.ahead is None or i < k + max(self.ahead, 1) else 0


class StepsOneLabelLate(Terms):
    """Step sizes are looked up one label late."""

    def etas(self, i: int, c: int) -> Floats:
        return super().etas(i, c) + 1.0


class OverlappingBlocks(Terms):
    """Neighbouring blocks share a coordinate."""

    def block(self, i: int, size: int) -> tuple[int, int]:
        lo, hi = super().block(i, size)
        return lo, min(hi + 1, size)


class OneBlockOnly(Terms):
    """The mask does not depend on the round."""

    def block(self, i: int, size: int) -> tuple[int, int]:
        return super().block(0, size)


# -- streams


def counts_in_the_round(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
    """The round stands in the word that Philox counts up: round 1 is round 0 four numbers later."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[round, int(purpose), client, 0]))


def joins_seed_and_client(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
    """Seed 0 of client 1 is seed 1 of client 0."""
    return np.random.Generator(np.random.Philox(key=seed + client, counter=[0, int(purpose), 0, round]))


def forgets_the_purpose(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
    """All purposes draw from one stream."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, client, round]))


def draws_anew(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
    """Fresh numbers at every call."""
    return np.random.default_rng()
