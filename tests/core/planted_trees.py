"""Servers and aggregators with one bug each, which the properties of a tree must notice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crescendo.core.aggregator import Aggregator
from crescendo.core.messages import Settled, Sum, SumOverlaps, Update, Word
from crescendo.core.round_ranges import RoundRanges
from crescendo.core.server import Server
from crescendo.errors import PeerError

# -- servers


class TakesASumAgain(Server):
    def _check_sum(self, total: Sum) -> None:
        try:
            super()._check_sum(total)
        except SumOverlaps:
            return


class TakesASumWithOneNewPair(Server):
    def _check_sum(self, total: Sum) -> None:
        try:
            super()._check_sum(total)
        except SumOverlaps as error:
            if len(error.settled) == len(total.pairs):
                raise


def _without(ranges: RoundRanges, i: int, c: int) -> RoundRanges:
    """All but round i of client c."""
    left = RoundRanges()
    for client, first, stop in ranges.export():
        pairs = [(first, i), (i + 1, stop)] if client == c and first <= i < stop else [(first, stop)]
        for pair in pairs:
            left.add(client, *pair)
    return left


class SettlesTheFirstPairOnly(Server):
    def receive_sum(self, total: Sum) -> bool:
        open_before = [super(SettlesTheFirstPairOnly, self)._settled(*pair) for pair in total.pairs]
        rose = super().receive_sum(total)
        for (i, c), settled in list(zip(total.pairs, open_before, strict=True))[1:]:
            if not settled and i >= self.k and self._rounds._beyond.has(i, c):
                self._rounds._beyond = _without(self._rounds._beyond, i, c)
        return rose


class MovesBeforeCheckingASum(Server):
    def receive_sum(self, total: Sum) -> bool:
        try:
            return super().receive_sum(total)
        except PeerError:
            self.model = self._moved(total.pairs[0][0], total.delta, "a sum")
            raise


class NamesTheWrongPairs(Server):
    def receive_sum(self, total: Sum) -> bool:
        try:
            return super().receive_sum(total)
        except SumOverlaps as error:
            raise SumOverlaps(total.pairs, len(total.pairs)) from error


# -- aggregators


class ForgetsWhatItSent(Aggregator):
    """Keeps the sum, not its members."""

    def pack(self) -> Sum | None:
        total = super().pack()
        self._parcels = {id: parcel for id, parcel in self._parcels.items() if parcel.within is None}
        return total


class ForgetsTheRest(Aggregator):
    """A sum of which a part is settled is forgotten with all its members."""

    def hear(self, word: Word) -> dict[Any, Word]:
        before = dict(self._frozen)
        parts = super().hear(word)
        for id in before.keys() - self._frozen.keys():
            for pair in before[id].pairs:
                self._parcels = {key: p for key, p in self._parcels.items() if pair not in p.content.pairs}
        return parts


class KeepsASumThatWillNeverBeTaken(Aggregator):
    """Waits for all pairs of a sum to be settled before it lets go of it."""

    def _forget_what_is_settled(self) -> list[Any]:
        for id, total in list(self._frozen.items()):
            if all(self._settled(pair) for pair in total.pairs):
                del self._frozen[id]
        for id, parcel in list(self._parcels.items()):
            if all(self._settled(pair) for pair in parcel.content.pairs):
                del self._parcels[id]
        return []


class TellsOnlyWhoIsBehindItNow(Aggregator):
    """A child is not told of a parcel that is forgotten because of a client that moved on."""

    def _forget_what_is_settled(self) -> list[Any]:
        super()._forget_what_is_settled()
        return []


class SendsTheRestWithTheOldNumbers(Aggregator):
    """Strikes the settled pairs off a sum and leaves its numbers as they are."""

    def _forget_what_is_settled(self) -> list[Any]:
        for parcel in list(self._parcels.values()):
            rest = tuple(pair for pair in parcel.content.pairs if not self._settled(pair))
            if rest and rest != parcel.content.pairs:
                del self._parcels[parcel.content.id]
                parcel.content, parcel.within = Sum(rest, parcel.content.delta), None
                self._parcels[parcel.content.id] = parcel
        return super()._forget_what_is_settled()


class ChangesWhatItSent(Aggregator):
    """Adds to a frozen sum what came since."""

    def unanswered(self) -> list[Sum]:
        before = super().unanswered()
        late = [parcel.content for parcel in self._parcels.values() if parcel.within is None]
        if not before or not late or not set(late[0].pairs).isdisjoint(before[0].pairs):
            return before
        return [Sum((*before[0].pairs, *late[0].pairs), before[0].delta + late[0].delta), *before[1:]]


class AddsInSinglePrecision(Aggregator):
    def pack(self) -> Sum | None:
        total = super().pack()
        return total and Sum(total.pairs, total.delta.astype(np.float32).astype(np.float64))


class AddsTheSamePairTwice(Aggregator):
    """Does not look whether two parcels share a pair."""

    def _choose(self) -> Any:
        chosen = [parcel for parcel in self._parcels.values() if parcel.within is None]
        return chosen, np.sum([parcel.content.delta for parcel in chosen], axis=0) if chosen else np.zeros(0)


class AnswersForTheServer(Aggregator):
    """Tells its children that what it holds is settled."""

    def hear(self, word: Word) -> dict[Any, Word]:
        own = {pair for parcel in self._parcels.values() for pair in parcel.content.pairs}
        yours = {c: settled | Settled.of(i for i, client in own if client == c) for c, settled in word.yours.items()}
        return super().hear(Word(yours, word.k, word.epoch, word.model))


class MendsAnOldModel(Aggregator):
    """Gives a child the newest model with what was settled since."""

    def newest(self, child: Any) -> Word | None:
        word = super().newest(child)
        return word and Word({c: self._known[c] for c in word.yours}, word.k, word.epoch, word.model)


class PassesOnModelsWithWhatItKnows(Aggregator):
    def _parts(self, word: Word, forgotten: Any) -> dict[Any, Word]:
        known = {c: self._known[c] for c in word.yours}
        return super()._parts(Word(known, word.k, word.epoch, word.model), forgotten)


class TellsEveryoneTheSame(Aggregator):
    """Each child gets the ``yours`` of the first."""

    def _parts(self, word: Word, forgotten: Any) -> dict[Any, Word]:
        first = next(iter(word.yours.values()), Settled(0))
        return super()._parts(Word(dict.fromkeys(word.yours, first), word.k, word.epoch, word.model), forgotten)


class KeepsBroadcastsToItself(Aggregator):
    def _parts(self, word: Word, forgotten: Any) -> dict[Any, Word]:
        return {} if word.model is not None else super()._parts(word, forgotten)


class HoldsARepeatTwice(Aggregator):
    """Every message that comes is a new parcel, whatever came before."""

    def receive(self, child: Any, message: Update | Sum) -> Word | None:
        held = dict(self._parcels)
        self._parcels.clear()
        answer = super().receive(child, message)
        new, self._parcels = self._parcels, held
        for parcel in new.values():
            self._parcels[f"{parcel.content.id} {len(self._parcels)}"] = parcel
        return answer

    def _choose(self) -> Any:
        return AddsTheSamePairTwice._choose(self)  # type: ignore[arg-type]


class BelievesAnOlderEpoch(Aggregator):
    def hear(self, word: Word) -> dict[Any, Word]:
        return super().hear(Word(word.yours, word.k, self.epoch, word.model))


class BlamesEveryone(Aggregator):
    """One member is refused, all are dropped."""

    def refused(self, id: str, pairs: Iterable[tuple[int, int]] = ()) -> Any:
        total = self._frozen.get(id)
        return super().refused(id, total.pairs if total else pairs)


class MixesBlocks(Aggregator):
    def _block(self, content: Sum) -> tuple[int, int]:
        return 0, len(content.delta)
