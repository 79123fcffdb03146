"""Servers with one bug each. The docstring is the bug; `test_planted_bugs` says which property must see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from crescendo.core.messages import DuplicateUpdate, Settled, Update
from crescendo.core.server import Server
from crescendo.errors import PeerError


class OneRoundAtATime(Server):
    """The paper's `if` in the place of `while`."""

    def _advance(self) -> bool:
        if self._open or self.finished or not self._present.any():
            return False
        self.k += 1
        self._open = self._count_open()
        return True


class AppliesTwice(Server):
    """A repeated update is subtracted again."""

    def receive(self, update: Update) -> bool:
        try:
            return super().receive(update)
        except DuplicateUpdate:
            self.model = self.model - update.delta
            raise


class ForgetsWhatOvertook(Server):
    """An update of a later round is noted, not applied."""

    def receive(self, update: Update) -> bool:
        model = self.model
        early = update.round > self.k
        rose = super().receive(update)
        if early:
            self.model = model
        return rose


class AddsInsteadOfSubtracting(Server):
    """The wrong sign."""

    def receive(self, update: Update) -> bool:
        return super().receive(Update(update.round, update.client, -update.delta))


class WaitsForOneLess(Server):
    """A round is taken as complete when one client is missing."""

    def _advance(self) -> bool:
        before = self.k
        while self._open <= 1 and not self.finished and self._present.any():
            self.k += 1
            self._open = self._count_open()
        return self.k > before


class KeepsQuietAboutWhatOvertook(Server):
    """`yours` lacks the rounds that overtook."""

    def settled(self, c: int) -> Settled:
        return Settled(super().settled(c).below)


class ClaimsOneTooMany(Server):
    """`yours` is off by one."""

    def settled(self, c: int) -> Settled:
        below, beyond = super().settled(c)
        return Settled(min(below + 1, self.terms.rounds), beyond)


class OverwritesItsModel(Server):
    """The model is moved in place, under the feet of old broadcasts."""

    def receive(self, update: Update) -> bool:
        own = self.model
        rose = super().receive(update)
        own.flags.writeable = True
        own[:] = self.model
        own.flags.writeable = False
        self.model = own
        return rose


class CountsBeforeChecking(Server):
    """A refused update leaves a trace in a counter."""

    def receive(self, update: Update) -> bool:
        if update.round < self.k:
            self.late += 1
        return super().receive(update)


class MovesBeforeChecking(Server):
    """A refused update has moved the model already."""

    def receive(self, update: Update) -> bool:
        before = self.model
        try:
            return super().receive(update)
        except PeerError:
            if np.shape(update.delta) == before.shape:
                self.model = before - 0.0 * np.nan_to_num(update.delta)
            raise


class MendsBrokenNumbers(Server):
    """NaN and infinities are taken as numbers."""

    def receive(self, update: Update) -> bool:
        return super().receive(Update(update.round, update.client, np.nan_to_num(update.delta)))


class BelievesAnyRound(Server):
    """Rounds that nobody can be in are taken."""

    def _check_pair(self, i: int, c: int) -> None:
        self._check_client(c)
        if not 0 <= i < self.terms.rounds:
            raise PeerError(f"there is no round {i} in this run, check the terms")
        if not self.terms.share(i, c):
            raise PeerError(f"client {c} has no share in round {i}, check the terms")


class CallsConflictsRepeats(Server):
    """Other bytes for a pair that was applied raise no alarm."""

    def _repeated(self, i: int, c: int, delta: Any) -> PeerError:
        return DuplicateUpdate(f"client {c} already sent round {i}, drop this message")


class KeepsARefusedMessage(Server):
    """Refused messages are kept, for a log."""

    def receive(self, update: Update) -> bool:
        try:
            return super().receive(update)
        except PeerError as error:
            self.__dict__.setdefault("log", []).append(str(error))
            raise


class GoesOnAlone(Server):
    """k rises with nobody present."""

    def _advance(self) -> bool:
        before = self.k
        while not self._open and not self.finished:
            self.k += 1
            self._open = self._count_open()
        return self.k > before


class WaitsForTheAbsent(Server):
    """A client declared absent still holds rounds up."""

    def absent(self, c: int) -> bool:
        self._check_client(c)
        return False


class SendsTheReturnedBack(Server):
    """A returning client is sent to round k, even behind what it sent."""

    def back(self, c: int, last: int) -> int:
        super().back(c, last)
        return self.k


class LeavesRoundsOpenOnReturn(Server):
    """The rounds between a client's last and its start are not made void."""

    def back(self, c: int, last: int) -> int:
        self._check_client(c)
        self._present[c] = True
        self._open = self._count_open()
        return max(self.k, last + 1)


class ListensToTheGone(Server):
    """One who left for good is heard again."""

    def leave(self, c: int) -> bool:
        return self.absent(c)


class ForgetsWhoIsAbsent(Server):
    """The export lacks who is present."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "present": np.ones(self.terms.clients, dtype=bool)}


class ForgetsOvertakersInExport(Server):
    """The export lacks the rounds that overtook."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "overtook": []}


class ExportsSinglePrecision(Server):
    """The export rounds the model."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "model": self.model.astype(np.float32)}


class ExportsObjects(Server):
    """The export holds what cannot be written without pickle."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "below": self._rounds.below.astype(object)}


class ExportsItsOwnArrays(Server):
    """The export is the live state, not a copy."""

    def export(self) -> dict[str, Any]:
        return {**super().export(), "below": self._rounds.below}
