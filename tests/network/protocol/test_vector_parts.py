"""Vectors on the wire: what comes out is what went in, rounded once; what breaks the rules is refused and holds no memory."""

from __future__ import annotations

import struct
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.core.vectors import WIRES, decode, encode, rounded
from crescendo.errors import PeerError, UsageError
from crescendo.network.protocol import vector_parts
from crescendo.network.protocol.resumption import PART
from crescendo.network.protocol.vector_parts import Assembly, Part

LARGEST = {"float64": 1e308, "float32": 3e38, "float16": 6e4, "bfloat16": 3e38}
quick = settings(deadline=None, max_examples=60)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(vector_parts, "PART", 24)
    return 24


def bfloat16_near(x: float) -> Any:
    """The nearest bfloat16, by exact arithmetic over all candidates around x."""
    upper = struct.unpack("<I", struct.pack("<f", np.float32(x)))[0] >> 16
    candidates = [c for c in (upper - 1, upper, upper + 1) if 0 <= c < 1 << 16]
    values = [(struct.unpack("<f", struct.pack("<I", c << 16))[0], c) for c in candidates]
    finite = [(v, c) for v, c in values if np.isfinite(v)]
    return min(finite, key=lambda vc: (abs(Fraction(vc[0]) - Fraction(x)), vc[1] & 1))[0]


@pytest.mark.parametrize("kind", WIRES)
@quick
@given(data=st.data())
def test_a_vector_comes_back_rounded_once_and_read_only(kind: str, data: st.DataObject) -> None:
    limit = LARGEST[kind]
    numbers = data.draw(st.lists(st.floats(-limit, limit), min_size=1, max_size=20))
    got = rounded(np.array(numbers), kind)
    if kind == "bfloat16":
        np.testing.assert_array_equal(got, [bfloat16_near(x) for x in numbers])
    else:
        np.testing.assert_array_equal(got, np.array(numbers).astype(kind))
    assert encode(got, kind) == encode(np.array(numbers), kind)  # what was rounded is not rounded again
    assert not got.flags.writeable


def test_every_bfloat16_comes_back_as_it_was() -> None:
    bits = np.arange(1 << 16, dtype="<u2")
    finite = bits[(bits & 0x7F80) != 0x7F80]
    assert encode(decode(finite.tobytes(), "bfloat16", len(finite)), "bfloat16") == finite.tobytes()


def test_a_tie_in_bfloat16_goes_to_even_and_a_hair_beyond_it_goes_up() -> None:
    tie = 1 + 2.0**-8  # half way between 1 and the next bfloat16
    assert rounded(np.array([tie, tie + 2.0**-40, tie + 2.0**-7]), "bfloat16").tolist() == [
        1.0,
        1 + 2.0**-7,
        1 + 2.0**-6,
    ]


@pytest.mark.parametrize(
    ("kind", "value"), [("float16", 7e4), ("float32", 1e39), ("bfloat16", 3.4e38), ("float64", np.inf)]
)
def test_what_does_not_fit_is_not_sent(kind: str, value: float) -> None:
    for sign in (1, -1):
        with pytest.raises(UsageError, match="not finite"):
            encode(np.array([0.0, sign * value]), kind)
    with pytest.raises(UsageError, match="not finite"):
        encode(np.array([np.nan]), kind)


@pytest.mark.parametrize("kind", WIRES)
def test_bytes_that_are_not_finite_or_not_as_many_are_refused(kind: str) -> None:
    bad = {"bfloat16": b"\xc0\x7f"}.get(kind) or np.array([np.nan], dtype=kind).tobytes()
    with pytest.raises(PeerError, match="not finite"):
        decode(bad, kind, 1)
    for data in (b"", bad[:-1], bad + bad):
        with pytest.raises(PeerError, match="expected 1 numbers"):
            decode(data, kind, 1)
    with pytest.raises(PeerError, match="none of"):
        decode(bad, "int8", 1)
    with pytest.raises(UsageError, match="choose one"):
        encode(np.zeros(1), "int8")


# -- parts -------------------------------------------------------------------------------------------------------------


@quick
@given(numbers=st.integers(1, 50), kind=st.sampled_from(WIRES))
def test_a_vector_in_parts_comes_back_whole(numbers: int, kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_parts, "PART", 24)
        data = encode(np.arange(numbers, dtype=float), kind)
        parts, assembly = list(Part.split(7, data, kind)), Assembly(numbers)
        assert all(len(part.data) <= 24 for part in parts)
        assert [assembly.add(part) for part in parts] == [None] * (len(parts) - 1) + [data]
        assert assembly.held == 0


def test_a_model_of_ten_megabytes_travels_in_parts_of_one() -> None:
    data = bytes(10 * PART + 4)
    parts = list(Part.split(0, data, "float32"))
    assert [len(part.data) for part in parts] == [PART] * 10 + [4]


def test_a_newer_vector_supersedes_one_half_way(small_parts: int) -> None:
    old, new = encode(np.ones(20), "float64"), encode(np.full(20, 2.0), "float64")
    assembly = Assembly(20)
    for part in list(Part.split(1, old, "float64"))[:3]:
        assert assembly.add(part) is None
    assert assembly.held == 3 * small_parts
    assert [assembly.add(part) for part in Part.split(2, new, "float64")][-1] == new


# What a sender may do wrong, each as a change of one field of a sound part.
WRONG = {
    "skips a part": lambda p: Part(p.about, p.part + 1, p.parts, p.wire, p.numbers, p.data),
    "changes its subject": lambda p: Part(p.about + 1, p.part, p.parts, p.wire, p.numbers, p.data),
    "changes the number of parts": lambda p: Part(p.about, p.part, p.parts + 1, p.wire, p.numbers, p.data),
    "changes the floats": lambda p: Part(p.about, p.part, p.parts, "float32", p.numbers, p.data),
    "changes the length": lambda p: Part(p.about, p.part, p.parts, p.wire, p.numbers + 1, p.data),
    "sends too little": lambda p: Part(p.about, p.part, p.parts, p.wire, p.numbers, p.data[:-1]),
    "sends too much": lambda p: Part(p.about, p.part, p.parts, p.wire, p.numbers, bytes(p.data) + b"x"),
    "sends nothing": lambda p: Part(p.about, p.part, p.parts, p.wire, p.numbers, b""),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("at", range(4))
def test_a_sender_that_breaks_the_rules_is_refused_and_nothing_is_held(small_parts: int, wrong: str, at: int) -> None:
    data = encode(np.arange(10.0), "float64")
    assembly, parts = Assembly(10), list(Part.split(3, data, "float64"))
    assert len(parts) == 4
    for part in parts[:at]:
        assembly.add(part)
    bad = WRONG[wrong](parts[at])
    if at == 0 and wrong == "changes its subject":
        return  # a first part may be about anything
    with pytest.raises(PeerError):
        assembly.add(bad)
    assert assembly.held == 0
    assert [assembly.add(part) for part in parts][-1] == data  # and it may begin again


@pytest.mark.parametrize("numbers", [0, 11, 2**52])
def test_a_vector_longer_than_agreed_is_refused_at_its_first_part(small_parts: int, numbers: int) -> None:
    with pytest.raises(PeerError, match="at most 10 are agreed"):
        Assembly(10).add(Part(0, 0, max(1, -(-numbers * 8 // 24)), "float64", numbers, bytes(24)))


def test_floats_that_are_not_agreed_are_refused() -> None:
    with pytest.raises(PeerError, match="agreed is float32"):
        Assembly(10, ("float32",)).add(Part(0, 0, 1, "float64", 1, bytes(8)))


@pytest.mark.slow
@quick
@given(st.lists(st.tuples(*[st.integers(0, 6)] * 4, st.sampled_from([*WIRES, "x"]), st.integers(0, 30)), max_size=40))
def test_whatever_comes_no_more_is_held_than_one_vector(messages: list[tuple[int, int, int, int, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_parts, "PART", 8)
        assembly = Assembly(4)
        for about, part, parts, numbers, kind, size in messages:
            try:
                whole = assembly.add(Part(about, part, parts, kind, numbers, bytes(size)))
                assert whole is None or len(whole) <= 4 * 8
            except PeerError:
                assert assembly.held == 0
            assert assembly.held <= 4 * 8


@pytest.mark.slow
def test_a_simulation_needs_none_of_the_network_s_libraries() -> None:
    code = "import sys, crescendo.simulator.simulation, crescendo.network.protocol.vector_parts; sys.exit('google.protobuf' in sys.modules)"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_what_a_model_has_set_numpy_to_do_makes_no_release_fail(wire: str) -> None:
    numbers = np.array([1e-320, 1e-45, 1e-7, 1.0, 1e300, -1e-60])
    expected = rounded(numbers, wire, saturate=True).tolist()
    with np.errstate(all="raise"):
        assert rounded(numbers, wire, saturate=True).tolist() == expected
        assert len(encode(rounded(numbers, wire, saturate=True), wire))
