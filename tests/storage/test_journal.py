"""The journal: what was synced is there, what is damaged is never used, and a torn tail is told from damage."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo import system, whole_files
from crescendo.errors import UsageError
from crescendo.storage.journal import journal as journal_module
from crescendo.storage.journal.journal import Journal, JournalFailed, lock_folder
from crescendo.storage.journal.segments import HEAD, OPENING, JournalDamaged, Record, Segments

FIRST = "journal-" + "0" * 20


def written(folder: Path, *groups: list[bytes], segment_bytes: int = 1 << 20) -> list[Record]:
    """A journal of these bodies, synced group by group; its records."""
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, segment_bytes)
    for group in groups:
        journal.write([(1, [body]) for body in group])
    records = list(journal.read())
    journal.close()
    return records


def bodies(folder: Path) -> list[bytes]:
    return [record.body for record in Segments(folder).records()]


def reopened(folder: Path) -> tuple[list[bytes], bool]:
    """What a journal holds when it is opened again, and whether something was cut."""
    journal = Journal(folder)
    try:
        return [record.body for record in journal.read()], journal.cut is not None
    finally:
        journal.close()


def copy_of(folder: Path, name: str, data: bytes) -> Path:
    """A copy of a journal's folder in which one file has other bytes."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (copy / name).write_bytes(data)
    return copy


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.binary(max_size=50), max_size=5), max_size=6),
    st.integers(60, 400),
    st.integers(0, 30),
)
@pytest.mark.slow
def test_what_was_synced_is_read_again_in_order_whatever_the_segments(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]], segment_bytes: int, start: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    records = written(folder, *groups, segment_bytes=segment_bytes)
    assert [record.body for record in records] == [body for group in groups for body in group]
    assert [record.number for record in records] == list(range(len(records)))
    assert records == list(Segments(folder).records())
    if start <= len(records):
        assert list(Segments(folder).records(start)) == records[start:]
    again = Journal(folder, segment_bytes)
    assert again.end == len(records) and again.cut is None
    again.write([(9, [b"one", b" more"])])
    assert list(again.read())[-1][:3] == (len(records), 9, b"one more")
    again.close()


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
def test_a_tail_torn_at_any_byte_is_cut_and_the_journal_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    written(folder, [b"first", b"second"], [b"third", b"", b"fifth" * 4])
    data = (folder / FIRST).read_bytes()
    ends = [OPENING.size]
    for body in (b"first", b"second", b"third", b"", b"fifth" * 4):
        ends.append(ends[-1] + HEAD.size + len(body))
    assert ends[-1] == len(data)
    for at in range(len(data)):
        copy = copy_of(folder, FIRST, data[:at])
        whole = sum(end <= at for end in ends[1:])
        assert reopened(copy) == (bodies(folder)[:whole], at > OPENING.size and at not in ends)
        assert bodies(copy) == bodies(folder)[:whole]  # it is mended now
        journal = Journal(copy)
        journal.write([(1, [b"new"])])
        journal.close()
        assert reopened(copy) == ([*bodies(folder)[:whole], b"new"], False)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
def test_a_flipped_bit_anywhere_is_never_read_as_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    written(folder, [b"first"], [b"second"], [b"third", b"fourth"])
    data, sound = (folder / FIRST).read_bytes(), bodies(folder)
    start = [OPENING.size]
    for body in sound:
        start.append(start[-1] + HEAD.size + len(body))
    for at in range(len(data)):
        for bit in (1, 128):
            copy = copy_of(folder, FIRST, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            if at < start[2]:  # the opening, or a record that a later one calls synced
                with pytest.raises(JournalDamaged, match="put a sound copy of the folder back"):
                    reopened(copy)
                with pytest.raises(JournalDamaged):
                    bodies(copy)
                assert (copy / FIRST).stat().st_size == len(data)  # and nothing was cut off it
            else:
                whole = 2 if at < start[3] else 3
                assert bodies(copy) == sound[:whole]
                assert reopened(copy) == (sound[:whole], True)


@pytest.mark.parametrize("garbage", [bytes(5000), b"\xff" * 5000, b"CRSJRNL1" * 700])
def test_garbage_at_the_end_is_cut(tmp_path: Path, garbage: bytes) -> None:
    folder = tmp_path / "journal"
    written(folder, [b"first"], [b"second"])
    copy = copy_of(folder, FIRST, (folder / FIRST).read_bytes() + garbage)
    assert reopened(copy) == ([b"first", b"second"], True)


def test_a_group_that_reached_the_disk_in_another_order_is_cut_where_it_breaks(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    written(folder, [b"synced"], [b"x" * 5000, b"y" * 5000, b"z"])
    data = bytearray((folder / FIRST).read_bytes())
    at = data.index(b"y" * 100)
    data[at : at + 4096] = bytes(4096)  # a page of the last group that never came, while the one after it did
    assert reopened(copy_of(folder, FIRST, bytes(data))) == ([b"synced", b"x" * 5000], True)


def test_a_false_record_in_the_floats_of_a_peer_is_not_taken_for_one(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "journal"
    written(other, [b"a"], [b"b"], [b"c"])
    forged = (other / FIRST).read_bytes()[OPENING.size :]  # sound records of another segment
    written(folder, [b"first"], [forged])
    data = (folder / FIRST).read_bytes()
    assert reopened(copy_of(folder, FIRST, data[:-1])) == ([b"first"], True)
    assert reopened(folder) == ([b"first", forged], False)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
def test_damage_in_any_segment_but_the_last_is_refused_by_who_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    written(folder, *[[b"%03d" % i * 20] for i in range(10)], segment_bytes=250)
    names = [path.name for path in Segments(folder).paths()]
    assert len(names) > 3
    data = (folder / names[1]).read_bytes()
    for at in range(len(data)):
        copy = copy_of(folder, names[1], data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(JournalDamaged):
            bodies(copy)
    for at in range(len(data)):
        with pytest.raises(JournalDamaged):
            bodies(copy_of(folder, names[1], data[:at]))


def test_a_segment_that_is_missing_or_of_another_history_is_refused(tmp_path: Path) -> None:
    folder, other = tmp_path / "journal", tmp_path / "other"
    for where, word in ((folder, b"one"), (other, b"two")):
        written(where, *[[word * 30] for _ in range(10)], segment_bytes=250)
    names = [path.name for path in Segments(folder).paths()]
    with pytest.raises(JournalDamaged, match="does not follow on the one before it"):
        bodies(copy_of(folder, names[2], (other / names[2]).read_bytes()))
    for name in names[1:-1]:
        copy = copy_of(folder, name, b"")
        (copy / name).unlink()
        with pytest.raises(JournalDamaged, match="does not follow"):
            bodies(copy)
    copy = copy_of(folder, names[0], b"")
    (copy / names[0]).unlink()
    with pytest.raises(JournalDamaged, match="has no record 0"):
        bodies(copy)


def test_a_record_that_followed_on_another_one_is_not_taken(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    written(one, [b"first"])
    shutil.copytree(one, two)  # a backup, put back: the same segment with two histories
    written(one, [b"second"])
    start = (one / FIRST).stat().st_size
    written(one, [b"third"])
    written(two, [b"SECOND"], [b"THIRD"])
    mixed = (one / FIRST).read_bytes()[:start] + (two / FIRST).read_bytes()[-HEAD.size - 5 :]
    assert reopened(copy_of(one, FIRST, mixed)) == ([b"first", b"second"], True)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
def test_a_segment_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    written(folder, [b"a" * 300], segment_bytes=250)
    name = Segments(folder).paths()[-1].name
    data = (folder / name).read_bytes()
    assert len(data) == OPENING.size
    for torn in [data[:at] for at in range(len(data))] + [bytes(len(data))]:
        copy = copy_of(folder, name, torn)
        assert bodies(copy) == [b"a" * 300]
        assert reopened(copy) == ([b"a" * 300], False)


def test_pruning_removes_whole_segments_and_the_rest_can_be_read(tmp_path: Path) -> None:
    records = written(tmp_path, *[[b"%d" % i * 60] for i in range(10)], segment_bytes=250)
    journal = Journal(tmp_path, 250)
    journal.prune(6)
    assert list(journal.read(6)) == records[6:]
    with pytest.raises(JournalDamaged, match="has no record 0"):
        list(journal.read())
    journal.close()


def test_a_snapshot_can_ask_for_the_checksum_before_a_segment(tmp_path: Path) -> None:
    written(tmp_path, [b"a"], [b"b"])
    journal = Journal(tmp_path)
    records = list(journal.read())
    assert journal.check_before(2) == records[1].check == journal.check
    journal.roll()
    journal.roll()  # an empty segment is not rolled again
    journal.write([(1, [b"c"])])
    assert journal.check_before(2) == records[1].check
    assert journal.check_before(1) is None and journal.check_before(4) is None
    journal.close()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_after_a_failed_write_or_sync_the_journal_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    written(tmp_path, [b"a"])
    journal = Journal(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(system, call, fail)
        with pytest.raises(JournalFailed, match="could not be written"):
            journal.write([(1, [b"b"])])
    for use in (journal.check_alive, journal.roll, lambda: journal.write([]), lambda: journal.write([(1, [b"c"])])):
        with pytest.raises(JournalFailed):
            use()
    assert journal.end == 1


def test_a_record_says_that_those_written_before_it_are_synced(tmp_path: Path) -> None:
    written(tmp_path, [b"first"], [b"second"])
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[OPENING.size + HEAD.size] ^= 1
    (tmp_path / FIRST).write_bytes(data)
    with pytest.raises(JournalDamaged, match="damaged at record 0"):
        Journal(tmp_path)


def test_a_disk_that_takes_only_a_few_bytes_at_a_time_gets_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(system, "pwrite", lambda file, data, at: write(file, bytes(data[:7]), at))
    written(tmp_path, [b"a" * 100, b"b" * 100])
    assert bodies(tmp_path) == [b"a" * 100, b"b" * 100]


def test_a_record_longer_than_its_header_can_say_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LONGEST", 10)
    journal = Journal(tmp_path)
    with pytest.raises(UsageError, match="more than the journal takes"):
        journal.write([(1, [b"x" * 11])])
    assert journal.end == 0
    journal.close()


@pytest.mark.slow
def test_a_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path / "state")
    code = "import pathlib, sys; from crescendo.storage.journal import journal; journal.lock_folder(pathlib.Path(sys.argv[1]))"
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")], capture_output=True, text=True, check=False
    )
    assert other.returncode and "is in use by another process" in other.stderr
    os.close(lock)
    os.close(lock_folder(tmp_path / "state"))


@pytest.mark.slow
def test_reading_holds_one_record_at_a_time_and_opening_none(tmp_path: Path) -> None:
    written(tmp_path, *[[bytes(2 << 20)] for _ in range(12)], segment_bytes=1 << 30)
    tracemalloc.start()
    journal = Journal(tmp_path)
    opened = tracemalloc.get_traced_memory()[1]
    assert sum(len(record.body) for record in journal.read()) == 24 << 20
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    journal.close()
    assert opened < 4 << 20 and read < 7 << 20


def test_new_folders_are_on_disk_before_anything_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    monkeypatch.setattr(whole_files, "sync_folder", synced.append)
    os.close(lock_folder(tmp_path / "state" / "journal"))
    assert set(synced) == {tmp_path, tmp_path / "state"}
