"""What the server makes of sums: each pair in them once, or the whole sum refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crescendo.core.messages import ConflictingUpdate, RefusedSum, Settled, Sum, SumOverlaps, Update
from crescendo.core.server import Server
from tests.core import properties as p
from tests.core.sums import FOUR, some_sum


def test_a_sum_moves_the_model_once_and_settles_each_of_its_pairs() -> None:
    server = Server(FOUR, np.zeros(2))
    assert not server.receive_sum(some_sum((0, 0), (1, 0), (0, 1)))
    assert server.receive_sum(some_sum((0, 2), (0, 3))) and server.k == 1
    assert server.model.tolist() == [-2.0, -2.0] and server.settled(0) == Settled(2)


def test_a_sum_with_a_settled_pair_is_answered_with_what_the_server_has() -> None:
    server = Server(FOUR, np.zeros(2))
    server.receive(Update(0, 1, np.ones(2)))
    server.void(1, 2)
    before = server.export()
    with pytest.raises(SumOverlaps, match="2 of the 3 updates in this sum are here already") as answer:
        server.receive_sum(some_sum((0, 0), (0, 1), (1, 2)))
    assert answer.value.settled == ((0, 1), (1, 2)) and p.same(server.export(), before)
    assert answer.value.void == ((1, 2),), "the server never applied it"


BAD_SUMS: list[Any] = [
    (Sum((), np.ones(2)), ()),
    (some_sum((0, 0), (0, 0)), ()),
    (some_sum((0, 0), (0, 7)), ((0, 7),)),
    (some_sum((0, 0), (-1, 1), (3, 1)), ((-1, 1), (3, 1))),
    (some_sum((0, 0), (0, 3)), ((0, 3),)),  # has left
    (some_sum((0, 0), (0, 1), size=3), ()),
    (some_sum((0, 0), (0, 1), by=np.nan), ()),
    (some_sum((0, 0), (0, 1), by=-1.7e308), ()),
    (Sum(((0, 0), (0, 1)), np.ones(2, dtype=np.int64)), ()),
    (some_sum((0, 0), by=np.inf), ((0, 0),)),
]


@pytest.mark.parametrize(("bad", "at_fault"), BAD_SUMS)
def test_a_bad_sum_is_refused_wholly_and_names_who_is_at_fault(bad: Sum, at_fault: Any) -> None:
    server = Server(FOUR, np.full(2, 1.0e308))
    server.leave(3)
    before, model = server.export(), server.model
    with pytest.raises(RefusedSum) as refusal:
        server.receive_sum(bad)
    assert refusal.value.pairs == at_fault and p.same(server.export(), before) and server.model is model


def test_a_sum_of_one_is_an_update_and_another_one_in_its_place_is_an_alarm() -> None:
    server = Server(FOUR, np.zeros(2))
    server.receive_sum(some_sum((0, 0)))
    with pytest.raises(SumOverlaps):
        server.receive_sum(some_sum((0, 0)))
    with pytest.raises(ConflictingUpdate):
        server.receive(Update(0, 0, np.zeros(2)))
    with pytest.raises(ConflictingUpdate):
        server.receive_sum(some_sum((0, 0), by=2.0))


def test_late_pairs_of_a_sum_are_counted() -> None:
    server = Server(FOUR, np.zeros(2))
    for c in (2, 3):
        server.absent(c)
    server.receive_sum(some_sum((0, 0), (0, 1)))
    server.receive_sum(some_sum((0, 2), (1, 0), (0, 3)))
    assert server.k == 1 and server.late == 2
