"""A large group is never copied as a whole, whether the file system takes direct writes or not."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from crescendo.storage.journal import segment_file
from crescendo.storage.journal.segment_file import STAGE, SegmentFile


@pytest.mark.parametrize("direct", [True, False])
def test_a_large_group_is_not_held_twice(direct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not direct:
        monkeypatch.setattr(segment_file, "_open_direct", lambda path: None)
    body = bytes(range(256)) * (STAGE // 32)
    pieces: list[bytes | memoryview] = [b"head", memoryview(body)]
    file = SegmentFile(tmp_path / "segment", 0, make=True)
    tracemalloc.start()
    try:
        file.append(pieces, 4 + len(body))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        file.close()
    assert most < 2 * STAGE < len(body)
    assert (tmp_path / "segment").read_bytes() == b"head" + body
