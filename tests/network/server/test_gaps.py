"""Acknowledgements do not grow with the run, whatever a client leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.core.messages import Settled
from crescendo.network.protocol.wire_messages import Refusal
from crescendo.network.server import service
from crescendo.network.server.service import MOST_GAPS, MOST_VOIDED, NEVER_CAME
from tests.network.server.service_play import BelowANode, ServicePlay, long_run, played

FEW = 5  # gaps, in place of `MOST_GAPS`


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_GAPS", FEW)


def liar(on: ServicePlay, last: int) -> None:
    """Client 1 says that it has sent rounds up to ``last``."""
    on.joins(0)
    on.is_absent(1)
    on.joins(1, last=last)


@pytest.mark.parametrize("gaps", [FEW - 1, FEW, FEW + 1])
def test_the_oldest_rounds_of_a_client_that_leaves_too_many_gaps_become_void(
    tmp_path: Path, few: None, gaps: int
) -> None:
    with played(tmp_path, long_run(60, ahead=40)) as on:
        liar(on, last=39)
        on.sends(1, range(1, 2 * gaps, 2))
        assert not on.void(1, range(40)), "it is over the bound only once this is on disk"
        on.sends(1, [2 * gaps + 1])
        assert on.void(1, range(40)) == ([] if gaps <= FEW else [0])
        assert len(on.durable.settled(1).beyond) <= FEW + 1
        assert [(said["rounds"], said["reason"]) for said in on.events("void")] == [("0", NEVER_CAME)] * (gaps > FEW)


def test_a_client_hears_which_of_its_rounds_became_void(tmp_path: Path, few: None) -> None:
    with played(tmp_path, long_run(60, ahead=40)) as on:
        liar(on, last=39)
        on.sends(1, range(1, 2 * FEW + 3, 2))
        (answered,) = on.batch((1, on.update(30, 1)))
        assert answered.taken and answered.answers == [Refusal(NEVER_CAME, False, 0)]


def test_acknowledgements_stay_small_whatever_a_client_leaves_out(tmp_path: Path, few: None) -> None:
    with played(tmp_path, long_run(400, ahead=390)) as on:
        liar(on, last=389)
        longest = 0
        for i in range(1, 390, 3):
            on.sends(1, [i])
            longest = max(longest, len(on.durable.settled(1).beyond))
        assert longest <= FEW + 1 and on.durable.settled(1).below > 300


def test_a_gap_of_any_length_is_no_longer_than_one_round(tmp_path: Path, few: None) -> None:
    """It costs an acknowledgement nothing, so what was charged may still come."""
    with played(tmp_path, long_run(700, ahead=690)) as on:
        liar(on, last=689)
        on.sends(1, range(600, 690), together=30)
        assert not on.void(1, range(690)) and on.durable.settled(1) == Settled(0, ((600, 690),))
        on.sends(1, range(600), together=50)
        assert on.durable.settled(1) == Settled(690)


def test_a_long_gap_becomes_void_a_part_at_a_time(tmp_path: Path, few: None) -> None:
    """Each void round is answered, and few answers may wait for a client that does not read."""
    with played(tmp_path, long_run(700, ahead=690)) as on:
        liar(on, last=689)
        on.sends(1, range(601, 602 + 2 * FEW, 2))
        (answered,) = on.batch((1, on.update(689, 1)))
        assert len(answered.answers) == MOST_VOIDED and on.durable.settled(1).below == MOST_VOIDED


@pytest.mark.parametrize("most", [1, 7, 64])
def test_no_round_below_an_aggregator_is_taken_for_one_that_never_comes(tmp_path: Path, most: int) -> None:
    """With masks every sum holds the rounds of one block, so that those of others are gaps meanwhile, far fewer than may be."""
    with played(tmp_path, long_run(200, ahead=199, blocks=5)) as on:
        on.joins(0)
        on.joins(1)
        BelowANode(on, most).sends({0: range(200), 1: range(200)})
        assert on.durable.finished and not on.events("void") and MOST_GAPS > 200
