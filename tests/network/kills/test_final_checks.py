"""The check after a run can fail: each fault that it is there for is planted in what a sound run left, and seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crescendo.storage.journal.journal import Journal
from crescendo.storage.journal.journal_entries import Entry, Received, Summed, Voided, delta_of, to_bytes
from crescendo.storage.journal.replay import replay
from tests.conformance.cases import case
from tests.network.final_checks import check, entries_of, pairs_in
from tests.network.processes import Federation, federation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """A run that went well, in whose journal two updates stand as one sum, as an aggregator would have sent them."""
    with federation(tmp_path_factory.mktemp("sound"), case(run={"wire": "float32"})) as made:
        made.start()
        made.wait()

    def added_up(entries: list[Entry]) -> list[Entry]:
        one, other = [entry for entry in entries if isinstance(entry, Received)][3:5]
        data = delta_of(one).astype(np.float64) + delta_of(other)
        total = Summed(pairs_in(one) + pairs_in(other), "float64", data.tobytes())
        return [total if entry is one else entry for entry in entries if entry is not other]

    rewrite(made, added_up)
    return made


@pytest.fixture
def made(sound: Federation, tmp_path: Path) -> Iterator[Federation]:
    """A copy of it to spoil."""
    shutil.copytree(sound.folder, tmp_path, dirs_exist_ok=True)
    copy = replace(sound, folder=tmp_path)
    check(copy)
    yield copy


def rewrite(made: Federation, change: Callable[[list[Entry]], list[Entry]]) -> None:
    """Another journal, and the model that it adds up to: nothing but the planted fault is there to be seen."""
    entries = change(entries_of(made))
    shutil.rmtree(made.journal)
    made.journal.mkdir()
    journal = Journal(made.journal)
    journal.write([to_bytes(entry) for entry in entries])
    journal.close()
    np.savez(made.folder / "served" / "model.npz", model=replay(made.journal))


def first_sum(entries: list[Entry]) -> Summed:
    return next(entry for entry in entries if isinstance(entry, Summed))


def first_update(entries: list[Entry]) -> Received:
    return next(entry for entry in entries if isinstance(entry, Received))


def as_sum_too(entries: list[Entry]) -> list[Entry]:
    one = first_update(entries)
    return [*entries, Summed(pairs_in(one), one.wire, one.data, one.low)]


def as_update_too(entries: list[Entry]) -> list[Entry]:
    (i, c), total = first_sum(entries).pairs[0], first_sum(entries)
    return [*entries, Received(i, c, total.wire, total.data, total.low)]


def in_two_sums(entries: list[Entry]) -> list[Entry]:
    total = first_sum(entries)
    return [*entries, replace(total, pairs=total.pairs[:1])]


@pytest.mark.parametrize("twice", [as_sum_too, as_update_too, in_two_sums], ids=lambda change: change.__name__)
def test_a_pair_that_is_applied_twice_is_seen(twice: Callable[[list[Entry]], list[Entry]], made: Federation) -> None:
    rewrite(made, twice)
    with pytest.raises(AssertionError, match=r"applied twice, as \(round, client\): \[\(\d+, \d\)\]"):
        check(made)


def test_an_update_that_is_twice_in_one_sum_is_seen(made: Federation) -> None:
    """Its pairs are named once each, so that only the numbers show it."""

    def doubled(entries: list[Entry]) -> list[Entry]:
        total = first_sum(entries)
        i, c = total.pairs[0]
        (data,) = made.sent(c)[i]
        numbers = delta_of(total) + np.frombuffer(data, np.float32).astype(np.float64)
        return [replace(total, data=numbers.tobytes()) if entry is total else entry for entry in entries]

    rewrite(made, doubled)
    with pytest.raises(AssertionError, match="a sum is not what its clients sent"):
        check(made)


def test_a_pair_that_is_missing_is_seen(made: Federation) -> None:
    def dropped(entries: list[Entry]) -> list[Entry]:
        total = first_sum(entries)
        return [entry for entry in entries if entry is not total]

    rewrite(made, dropped)
    with pytest.raises(AssertionError, match="never applied"):
        check(made)


def test_a_pair_that_was_given_up_is_seen(made: Federation) -> None:
    def voided(entries: list[Entry]) -> list[Entry]:
        one = first_update(entries)
        return [Voided(one.round, one.client) if entry is one else entry for entry in entries]

    rewrite(made, voided)
    with pytest.raises(AssertionError, match="given up"):
        check(made)


def test_an_update_that_was_changed_on_the_way_is_seen(made: Federation) -> None:
    def changed(entries: list[Entry]) -> list[Entry]:
        one = first_update(entries)
        data = bytes([one.data[0] ^ 1]) + one.data[1:]
        return [replace(one, data=data) if entry is one else entry for entry in entries]

    rewrite(made, changed)
    with pytest.raises(AssertionError, match="changed on the way"):
        check(made)


def test_a_round_that_went_out_with_two_contents_is_seen(made: Federation) -> None:
    (made.folder / "client3-again.sent").write_text('{"round": 2, "data": "00"}\n')
    with pytest.raises(AssertionError, match="client 3 sent round 2 with 2 different contents"):
        check(made)


def test_a_model_that_is_off_by_one_bit_is_seen(made: Federation) -> None:
    model = made.model()
    np.savez(made.folder / "served" / "model.npz", model=np.append(np.nextafter(model[:1], 1), model[1:]))
    with pytest.raises(AssertionError, match="not what the journal adds up to"):
        check(made)
