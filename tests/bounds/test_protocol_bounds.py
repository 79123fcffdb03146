"""Bounds on what one message may hold: at one less, at the bound and at one more, as a hostile peer would write it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from crescendo.core.messages import Settled
from crescendo.errors import PeerError
from crescendo.federation.agreement import MOST_TEXT
from crescendo.network.protocol import codec, tree_messages, wire_pb2
from crescendo.network.protocol import tree_pb2 as pb
from crescendo.network.protocol.codec import LARGEST, LISTED, LONGEST_NAME, RANGES, TERMS, TEXT
from crescendo.network.protocol.resumption import PART, SMALL_PART, Held, resumed
from crescendo.network.protocol.tree_messages import MANY, MANY_NODES, TO_NODE, TO_PARENT
from crescendo.network.protocol.wire_messages import TO_CLIENT, TO_SERVER
from tests.bounds.edges import around
from tests.network.protocol.test_wire_messages import INSTANCE, acknowledging, hello, update

wire = wire_pb2


def is_taken(whole: Any, message: Any) -> bool:
    """Is the message read? What is refused is refused in one short sentence."""
    try:
        whole.decode(message)
    except PeerError as error:
        assert len(str(error)) < 250 and str(error).isprintable()
        return False
    return True


@around(LARGEST)
def test_rounds_epochs_and_lengths_stay_below_2_to_the_53(many: int) -> None:
    for message in (hello(epoch=many), hello(k=many), hello(last=many), update(about=many), update(numbers=many)):
        assert is_taken(TO_SERVER, message) is (many < LARGEST)
    for down in (wire.ToClient(refusal=wire.Refusal(round=many)), wire.ToClient(ack=wire.Ack(epoch=many))):
        assert is_taken(TO_CLIENT, down) is (many < LARGEST)
    ranges = acknowledging(ranges=[3, many])
    assert is_taken(TO_SERVER, ranges) is (many < LARGEST)


@around(LONGEST_NAME)
def test_names_federations_and_tokens_are_short(many: int) -> None:
    text = "n" * many
    for message in (hello(name=text), hello(federation=text), hello(token=text)):
        assert is_taken(TO_SERVER, message) is (many <= LONGEST_NAME)
    assert is_taken(TO_PARENT, pb.Up(hello=pb.NodeHello(name=text))) is (many <= LONGEST_NAME)


@around(TEXT)
def test_reasons_are_short(many: int) -> None:
    reason = "r" * many
    assert is_taken(TO_SERVER, wire.ToServer(leave=wire.Leave(reason=reason))) is (many <= TEXT)
    assert is_taken(TO_CLIENT, wire.ToClient(refusal=wire.Refusal(reason=reason))) is (many <= TEXT)


@around(TERMS)
def test_terms_that_are_made_can_be_sent_and_longer_ones_are_not_read(many: int) -> None:
    welcome = wire.Welcome(terms="t" * many, federation="f", received=wire.Settled())
    assert is_taken(TO_CLIENT, wire.ToClient(welcome=welcome)) is (many <= TERMS)
    assert TERMS == MOST_TEXT, "else a server starts whose terms no client can be shown"


@around(RANGES)
def test_so_many_ranges_of_rounds_are_read(many: int) -> None:
    assert is_taken(TO_SERVER, acknowledging(ranges=range(1, 2 * many + 1))) is (many <= RANGES)


@around(LISTED)
def test_so_many_single_rounds_are_listed_for_an_older_peer(many: int) -> None:
    """It takes the others for open, sends them again and is told."""
    made = codec.write_settled(Settled(0, ((1, 1 + many),)))
    assert len(made["beyond"]) == min(many, LISTED) and made["ranges"] == [1, 1 + many]


@around(PART)
def test_a_part_is_not_longer_than_stated(many: int) -> None:
    numbers = -(-many // 4)
    assert is_taken(TO_SERVER, update(numbers=numbers, data=bytes(many))) is (many <= PART)


@around(SMALL_PART)
def test_only_whole_small_parts_are_gone_on_with(many: int) -> None:
    """A peer that claims another length is sent all of it."""
    data = bytes(range(256)) * 1024
    claim = Held(0, many, hashlib.sha256(data[:many]).digest())
    assert resumed(data, claim).start == (many if many == SMALL_PART else 0)


PAIRS = 1 << 10  # in place of `MANY`: building so many messages takes a while


@around(PAIRS)
def test_a_sum_names_so_many_updates_and_a_link_so_many_clients(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MANY == 1 << 17
    monkeypatch.setattr(tree_messages, "MANY", PAIRS)
    pairs, is_fine = [pb.Pair(round=i, client=0) for i in range(many)], many <= PAIRS
    assert is_taken(TO_NODE, pb.Down(refused=pb.SumRefusal(id="0" * 32, pairs=pairs))) is is_fine
    assert is_taken(TO_PARENT, pb.Up(hello=pb.NodeHello(name="node", carries=range(many)))) is is_fine
    assert is_taken(TO_PARENT, pb.Up(alive=pb.Alive(heard=range(many)))) is is_fine
    yours = [pb.Yours(client=c, ack=wire.Ack(yours=wire.Settled(below=1))) for c in range(many)]
    assert is_taken(TO_NODE, pb.Down(acks=pb.Acks(yours=yours))) is is_fine


@around(MANY_NODES)
def test_a_link_names_so_many_aggregators(many: int) -> None:
    nodes = [pb.NodeVersion(name=f"node {n}") for n in range(many)]
    assert is_taken(TO_PARENT, pb.Up(alive=pb.Alive(nodes=nodes))) is (many <= MANY_NODES)
    ours = tree_messages.Alive(0, (), tuple(tree_messages.NodeVersion(f"node {n}", "") for n in range(many)))
    assert is_taken(TO_PARENT, TO_PARENT.encode(ours)), "what a sound aggregator leaves out is not read, and it goes on"


@pytest.mark.parametrize("letters", [63, 64, 65])
def test_a_version_and_a_build_are_short(letters: int) -> None:
    fine = wire.Version(program="1" * letters, lowest=1, highest=1, build="a" * letters)
    said = wire.ToServer(hello=wire.Hello(name="a", instance=INSTANCE, version=fine))
    assert is_taken(TO_SERVER, said) is (letters <= 64)
