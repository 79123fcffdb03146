"""Whatever is appended stands in the file, in order, whichever way it went there; direct writes keep the disk's rules."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo import system
from crescendo.storage.journal import segment_file
from crescendo.storage.journal.segment_file import BLOCK, SegmentFile

# Lengths around those at which something changes, with a small stage: then a few thousand bytes are large.
LENGTHS = st.one_of(
    st.integers(0, 40), st.builds(lambda n, d: max(0, n * BLOCK + d), st.integers(0, 6), st.integers(-3, 3))
)
GROUPS = st.lists(st.lists(LENGTHS, max_size=5), max_size=6)


class Watched:
    """`os.pwrite` that keeps a direct way's rules itself, also where the file system would not mind."""

    def __init__(self, patch: pytest.MonkeyPatch, *, most: int = 1 << 30, refuse: bool = False) -> None:
        self.direct, self.ways, self._most, self._refuse = 0, set[int](), most, refuse
        self._write = os.pwrite
        patch.setattr(segment_file, "STAGE", 2 * BLOCK)
        patch.setattr(segment_file, "LARGE", 5000)
        patch.setattr(segment_file, "_open_direct", self._open)
        patch.setattr(system, "pwrite", self._checked)

    def _open(self, path: Path) -> int:
        self.ways.add(way := os.open(path, os.O_WRONLY))
        return way

    def _checked(self, file: int, data: memoryview, at: int) -> int:
        if file in self.ways:
            if self._refuse:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            address = np.frombuffer(data, np.uint8).ctypes.data
            assert address % BLOCK == at % BLOCK == len(data) % BLOCK == 0
            self.direct += 1
        return self._write(file, data[: self._most], at)


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        yield patched


def check(groups: list[list[int]], **how: Any) -> Watched:
    """Append these groups of pieces, opening the file anew in between; the file is what was appended."""
    rng, wanted = np.random.default_rng(0), b""
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        watched, path = Watched(patched, **how), Path(folder, "segment")
        SegmentFile(path, 0, make=True).close()
        for lengths in groups:
            pieces = [rng.bytes(length) for length in lengths]
            file = SegmentFile(path, len(wanted))
            file.append(iter(pieces), sum(lengths))
            file.sync()
            file.close()
            wanted += b"".join(pieces)
            assert file.size == len(wanted)
            assert path.read_bytes() == wanted
    return watched


@given(GROUPS)
def test_what_is_appended_stands_in_the_file(groups: list[list[int]]) -> None:
    check(groups)


@given(GROUPS, st.sampled_from([1 << 9, BLOCK, BLOCK + 7]))
def test_a_disk_that_takes_only_a_part_gets_the_rest(groups: list[list[int]], most: int) -> None:
    check(groups, most=most)


@given(GROUPS)
def test_where_direct_writes_are_refused_all_is_written_all_the_same(groups: list[list[int]]) -> None:
    assert check(groups, refuse=True).direct == 0


def test_large_groups_go_past_the_cache_and_small_ones_do_not() -> None:
    assert check([[100], [4999], [0]]).direct == 0
    assert check([[100], [3 * BLOCK, 5, 2 * BLOCK + 1]]).direct == 2  # two blocks each, from the first whole one on


def test_a_full_disk_is_reported_and_not_taken_for_another_rule(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    Watched(patch)
    file = SegmentFile(tmp_path / "segment", 0, make=True)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(system, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        file.append([bytes(3 * BLOCK)], 3 * BLOCK)
    file.close()


def test_a_real_large_group_is_read_back(tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes((5 << 20) + 12345)
    file = SegmentFile(tmp_path / "segment", 0, make=True)
    for piece in (data[:100], data[100:-7], data[-7:]):
        file.append([piece], len(piece))
    file.sync()
    file.close()
    assert (tmp_path / "segment").read_bytes() == data
