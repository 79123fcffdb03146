"""Versions of both sides: what a peer may say of itself, and which protocol two sides speak."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from crescendo import __version__, build
from crescendo.build import build_id
from crescendo.cli.main import app
from crescendo.errors import PeerError
from crescendo.network.protocol import tree_pb2, wire_pb2
from crescendo.network.protocol.tree_messages import MANY_NODES, TO_NODE, TO_PARENT, Alive, NodeHello, NodeVersion
from crescendo.network.protocol.versions import OLD, OURS, PeerVersion, program_of
from crescendo.network.protocol.wire_messages import NOTHING, TO_CLIENT, TO_SERVER, Hello, Welcome

INSTANCE = "cd" * 16
HELLO = Hello("a", INSTANCE, version=PeerVersion("1.2.3rc1+local", 2, 5))
ranges = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda at: PeerVersion("1.0", at[0], at[0] + at[1]))


def test_a_version_arrives_with_each_first_message() -> None:
    assert TO_SERVER.decode(TO_SERVER.encode(HELLO)) == HELLO
    welcome = Welcome("{}", "f", 0, 0, 0, NOTHING, HELLO.version)
    assert TO_CLIENT.decode(TO_CLIENT.encode(welcome)) == welcome
    node = NodeHello("n", version=HELLO.version)
    assert TO_PARENT.decode(TO_PARENT.encode(node)) == node


def test_a_peer_that_says_nothing_is_unknown_and_speaks_protocol_1() -> None:
    found = TO_SERVER.decode(TO_SERVER.encode(Hello("a", INSTANCE)))
    assert found.version is None and program_of(found.version) == "unknown"
    assert OURS.common(found.version) == OLD.common(None) == 1


def test_this_program_still_speaks_with_peers_from_before_versions() -> None:
    assert OURS.lowest == 1 and OURS.program == __version__


@pytest.mark.parametrize(
    "bad",
    [
        *({"program": text} for text in ("", "x" * 65, "1\x1b[2J", "1\n2", "1 2", "[red]1", "\u202e1", "1.0é", "-1")),
        *({"build": text} for text in ("x" * 12, "abc", "ab" * 40, "12AB34", "1\x1b[2J")),
        *({"lowest": low, "highest": high} for low, high in ((0, 1), (3, 2), (1, 0), (0, 0), (2**32 - 1, 1))),
    ],
)
def test_a_version_that_is_none_is_refused(bad: dict[str, object]) -> None:
    said = wire_pb2.Version(**{"program": "1.0", "lowest": 1, "highest": 1, **bad})  # type: ignore[arg-type]
    with pytest.raises(PeerError, match="dropped, check the sender"):
        TO_SERVER.decode(wire_pb2.ToServer(hello=wire_pb2.Hello(name="a", instance=INSTANCE, version=said)))
    with pytest.raises(PeerError):
        TO_CLIENT.decode(wire_pb2.ToClient(welcome=wire_pb2.Welcome(version=said)))
    with pytest.raises(PeerError):
        TO_PARENT.decode(tree_pb2.Up(hello=tree_pb2.NodeHello(name="n", version=said)))
    with pytest.raises(PeerError):
        TO_NODE.decode(tree_pb2.Down(welcome=tree_pb2.NodeWelcome(federation="f", version=said)))


def test_what_an_aggregator_says_of_those_below_it_is_bounded_too() -> None:
    nodes = (NodeVersion("n", "1.0"), NodeVersion("o", "unknown"))
    assert TO_PARENT.decode(TO_PARENT.encode(Alive(1, (2,), nodes))) == Alive(1, (2,), nodes)
    silent = tree_pb2.Alive(nodes=[tree_pb2.NodeVersion(name="o")])
    assert TO_PARENT.decode(tree_pb2.Up(alive=silent)).nodes == nodes[1:]
    many = tree_pb2.Alive(nodes=[tree_pb2.NodeVersion(name="n")] * (MANY_NODES + 1))
    for bad in (many, tree_pb2.Alive(nodes=[tree_pb2.NodeVersion(name="n", program="\x07")])):
        with pytest.raises(PeerError):
            TO_PARENT.decode(tree_pb2.Up(alive=bad))
    assert len(TO_PARENT.encode(Alive(1, (), nodes * MANY_NODES)).alive.nodes) == MANY_NODES


@given(ranges, ranges, ranges)
def test_both_sides_find_the_same_protocol_and_a_side_between_them_narrows_it(
    a: PeerVersion, b: PeerVersion, between: PeerVersion
) -> None:
    found, both = a.common(b), set(range(a.lowest, a.highest + 1)) & set(range(b.lowest, b.highest + 1))
    assert found == b.common(a) == max(both, default=None)
    if a.common(between) and b.common(between):
        through = both & set(range(between.lowest, between.highest + 1))
        assert b.common(a.narrowed(between)) == max(through, default=None)


@pytest.mark.parametrize("theirs", [None, PeerVersion("0.9.0", 4, 6)], ids=["older", "newer"])
def test_sides_without_a_common_protocol_are_told_both_versions_and_whom_to_upgrade(theirs: PeerVersion | None) -> None:
    ours = PeerVersion("0.5.0", 2, 3)
    with pytest.raises(PeerError) as raised:
        ours.speak_with(theirs, "the server", '"a"')
    assert str(raised.value) == (
        '"a" runs Crescendo of an unknown version, which speaks protocol 1, and the server runs Crescendo 0.5.0, which speaks '
        'protocol 2 to 3; upgrade "a" to 0.5.0, or one that speaks protocol 2'
        if theirs is None
        else '"a" runs Crescendo 0.9.0, which speaks protocol 4 to 6, and the server runs Crescendo 0.5.0, which speaks '
        "protocol 2 to 3; upgrade the server to 0.9.0, or one that speaks protocol 4"
    )


def test_two_builds_of_one_version_can_be_told_apart() -> None:
    assert OURS.build == build_id() and re.fullmatch("[0-9a-f]{12}", OURS.build)
    assert TO_SERVER.decode(TO_SERVER.encode(Hello("a", INSTANCE, version=OURS))).version == OURS
    assert OURS.common(PeerVersion(OURS.program, OURS.lowest, OURS.highest, "0123456789ab")) == OURS.highest
    assert f"build {OURS.build}" in CliRunner().invoke(app, ["--version"]).stdout


def test_a_build_is_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = set()
    for name, content in (("a.py", "x = 1"), ("a.py", "x = 2"), ("b.py", "x = 2")):
        for old in tmp_path.glob("*.py"):
            old.unlink()
        (tmp_path / name).write_text(content)
        monkeypatch.setattr(build, "__file__", str(tmp_path / "build.py"))
        made.add(build_id.__wrapped__())
    assert len(made) == 3
