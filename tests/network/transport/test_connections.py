"""Connections are counted by address and in all; those that do not say who they are make room, and no others are closed."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack

import pytest

from crescendo.network.transport.connections import Connections, _Socket
from crescendo.network.transport.pending_streams import PendingStreams, TryLater


class At:
    """A stream of a connection."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer


def connections(names: int, most: int) -> Connections:
    made = Connections(PendingStreams(names))
    made.most = most
    return made


def kept(table: Connections, *sockets: _Socket) -> list[_Socket]:
    """What is still there after the excess was closed."""
    table._order = dict.fromkeys(sockets)
    excess = table._excess()
    assert len(set(excess)) == len(excess)
    return [one for one in sockets if one not in excess]


def test_a_flood_from_one_address_closes_its_own_oldest_connections_only() -> None:
    table = connections(names=2, most=1000)
    others = [_Socket(n, f"10.0.1.{n}", 1) for n in range(50)]
    flood = [_Socket(100 + n, "10.0.0.2", n) for n in range(900)]
    left = kept(table, *others, *flood)
    assert left[:50] == others
    assert left[50:] == flood[-(table.room // 2) :]


def test_floods_from_many_addresses_share_the_room() -> None:
    table = connections(names=2, most=1000)
    flood = [_Socket(n, f"10.0.{n % 10}.1", n) for n in range(1000)]
    left = kept(table, *flood, _Socket(5000, "10.9.9.9", 1))
    assert len(left) == table.room and left[-1].host == "10.9.9.9"
    assert set(Counter(one.host for one in left[:-1]).values()) <= {25, 26}


def test_a_thousand_addresses_with_a_connection_each_lose_the_oldest_and_not_all() -> None:
    table = connections(names=2, most=1000)
    flood = [_Socket(n, f"10.{n // 250}.{n % 250}.1", n) for n in range(1000)]
    assert kept(table, *flood) == flood[-table.room :]


def test_an_ipv6_network_counts_as_one_address() -> None:
    table = connections(names=2, most=1000)
    flood = [_Socket(n, f"2001:db8::{n:x}", n) for n in range(500)]
    assert kept(table, *flood) == flood[-(table.room // 2) :]


def test_the_room_never_takes_the_places_of_the_clients_that_are_named() -> None:
    assert connections(names=5, most=8000).room == 2 * 5 + 256
    assert connections(names=50, most=300).room == 200
    assert connections(names=1100, most=900).room == 56


def test_a_client_beyond_the_last_place_is_told_to_come_back_and_one_that_leaves_makes_room() -> None:
    async def come() -> None:
        table = connections(names=100, most=32)
        with ExitStack() as there:
            for n in range(32 - table.room):
                there.enter_context(table.known(At(f"ipv4:10.0.0.{n}:1")))
            there.enter_context(table.known(At("ipv4:10.0.0.1:1")))  # another stream of the same connection
            with pytest.raises(TryLater, match="no more than 32 connections; come back later"):
                there.enter_context(table.known(At("ipv4:10.0.0.99:1")))
        with table.known(At("ipv4:10.0.0.99:1")):
            assert len(table._known) == 1
        assert not table._known

    asyncio.run(come())
