"""The registry of ledgers: the same records have one budget, wherever files lie, and no older copy of their ledger is charged."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from crescendo import system
from crescendo.data.formats.readers import RecordFile
from crescendo.data.record_hashes import smallest_hashes
from crescendo.errors import DataError, Refused, UsageError
from crescendo.federation.policy import Policy
from crescendo.network.client.ledger_for import ledger_for
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.registry import registered_ledger, registry_upkeep
from crescendo.storage.registry.ledger_registry import LedgerRegistry
from crescendo.storage.registry.record_sketch import KEEP, KNOWN, RecordSketch
from tests import children
from tests.storage.ledger_play import BUDGET, PLAN, begun, cheap, store

children.preload(__name__)

POLICY: dict[str, Any] = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta}
KEY = b"k" * 32
ROWS = np.random.default_rng(0).normal(size=(3000, 3)).round(4)


def table(path: Path, rows: Any, names: str = "age,size,late") -> RecordFile:
    lines = (",".join(map(str, row)) for row in rows.tolist())
    path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    return RecordFile(path)


def opened(file: RecordFile | None, state: Path, log: list[Any] | None = None, **policy: Any) -> Ledger:
    state.mkdir(exist_ok=True)
    allowed = Policy.model_validate({**POLICY, **policy})
    noted: list[Any] = [] if log is None else log
    return ledger_for(file, allowed, state, lambda event, **facts: noted.append(facts["says"]))


def sign(ledger: Ledger, federation: str = "f") -> None:
    ledger.sign(federation, "terms", "me", PLAN, 1e-7, cheap)


def spent(file: RecordFile | None, state: Path, **policy: Any) -> Path:
    """A ledger of these records that has promised something and sent a round."""
    with opened(file, state, **policy) as ledger:
        sign(ledger)
        store(ledger, 0, b"zero")
        return ledger.path


@pytest.fixture
def mine(tmp_path: Path) -> RecordFile:
    return table(tmp_path / "mine.csv", ROWS)


# -- the same records


def changed(how: str, folder: Path) -> RecordFile:
    fresh, path = np.random.default_rng(1).normal(size=(30_000, 3)).round(4), folder / "other.csv"
    if how == "appended":
        return table(path, np.concatenate([ROWS, fresh[:3000]]))
    if how == "ten times as many":
        return table(path, np.concatenate([ROWS, fresh]))
    if how == "30% replaced":
        return table(path, np.concatenate([ROWS[900:], fresh[:900]]))
    if how == "one part of it":
        return table(path, ROWS[::5])
    if how == "another order":
        return table(path, ROWS[::-1, ::-1], "late,size,age")
    if how == "fewer digits":  # as a float32 has, and as 15 digits are
        return table(path, ROWS.astype(np.float32))
    if how == "one cell is a text":
        path = table(path, ROWS).path
        path.write_text(path.read_text() + "1.5,n/a,0.5\n1.5,unknown,0.5\n")
        return RecordFile(path)
    assert how == "moved"
    return RecordFile((folder / "mine.csv").rename(path))


SAME = (
    "appended, ten times as many, 30% replaced, one part of it, another order, fewer digits, one cell is a text, moved"
)


@pytest.mark.parametrize("how", SAME.split(", "))
def test_known_records_are_refused_a_second_ledger(how: str, mine: RecordFile, tmp_path: Path) -> None:
    kept = spent(mine, tmp_path / "a")
    with pytest.raises(Refused, match="have a ledger already") as refused:
        opened(changed(how, tmp_path), tmp_path / "b")
    assert f'ledger = "{kept}"' in str(refused.value) and not list((tmp_path / "b").iterdir())


def test_a_parquet_file_is_the_csv_that_it_was_saved_from(mine: RecordFile, tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").read_csv(mine.path)
    frame.to_parquet(tmp_path / "mine.parquet")
    csv, parquet = (smallest_hashes(RecordFile(tmp_path / f"mine.{kind}"), KEY, KEEP) for kind in ("csv", "parquet"))
    assert np.array_equal(csv, parquet)


def test_arrays_are_the_libsvm_text_that_they_were_saved_as(tmp_path: Path) -> None:
    x, y = np.array([[0.5, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([1, 0, 1])
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    (tmp_path / "mine.txt").write_text("+1 1:0.5\n0 2:2.0\n+1\n")
    kept = [smallest_hashes(RecordFile(tmp_path / name), KEY, KEEP).tolist() for name in ("mine.npz", "mine.txt")]
    assert kept[0] == kept[1] and len(kept[0]) == 3


def test_other_records_and_another_key_have_nothing_in_common(mine: RecordFile, tmp_path: Path) -> None:
    spent(mine, tmp_path / "a")
    spent(table(tmp_path / "theirs.csv", ROWS + 0.001), tmp_path / "b")
    one, other = (RecordSketch(smallest_hashes(mine, key, KEEP)) for key in (KEY, b"another"))
    assert one.overlap(other) == 0.0 and one.overlap(one) == 1.0
    assert one.count == pytest.approx(len(ROWS), rel=0.1)


def test_how_often_sketches_mislead_is_below_what_is_said() -> None:
    """By the binomial counts: of all hashes that are compared, or of a few less where two sketches end differently."""
    assert KEEP**2 / 2.0**64 < 6e-14
    for compared in (900, KEEP):
        needed = int(np.ceil(KNOWN * compared))
        assert binom.cdf(needed - 1, compared, 0.15) < 1e-5 and binom.sf(needed - 1, compared, 0.07) < 1e-3
    rng = np.random.default_rng(3)
    hashes = rng.integers(2**64, size=(10, 3000), dtype=np.uint64)
    for shared, known in ((0.15, True), (0.07, False)):
        for row in hashes:
            fresh = rng.integers(2**64, size=int(3000 * (1 - shared)), dtype=np.uint64)
            one, other = (RecordSketch(np.unique(two)[:KEEP]) for two in (row, np.append(row[len(fresh) :], fresh)))
            assert (one.overlap(other) >= KNOWN) == known
    one = RecordSketch(np.unique(hashes[0])[:KEEP])  # and a hundred times as many
    grown = RecordSketch(np.unique(np.append(hashes[0], rng.integers(2**64, size=297_000, dtype=np.uint64)))[:KEEP])
    assert one.overlap(grown) == 1.0


def test_records_that_changed_little_by_little_are_all_remembered(tmp_path: Path) -> None:
    fresh = np.random.default_rng(1).normal(size=(3000, 3))
    spent(table(tmp_path / "1.csv", ROWS), tmp_path / "a")
    opened(table(tmp_path / "2.csv", np.concatenate([ROWS[1500:], fresh[1500:]])), tmp_path / "a").close()
    opened(table(tmp_path / "3.csv", fresh), tmp_path / "a").close()
    for name in ("1.csv", "2.csv", "3.csv"):
        with pytest.raises(Refused, match="have a ledger already"):
            opened(RecordFile(tmp_path / name), tmp_path / "b")


def test_a_ledger_that_promised_nothing_is_in_nobodys_way(mine: RecordFile, tmp_path: Path) -> None:
    opened(mine, tmp_path / "a").close()
    spent(mine, tmp_path / "b")
    with pytest.raises(Refused, match="have a ledger already"):
        opened(mine, tmp_path / "a")


def test_of_two_that_are_open_one_signs(mine: RecordFile, tmp_path: Path) -> None:
    with opened(mine, tmp_path / "a") as one, opened(mine, tmp_path / "b") as other:
        sign(one)
        with pytest.raises(Refused, match="have a ledger already"):
            sign(other)
        assert not other.has_signed and not other.is_closed
        store(one, 0, b"zero")


def test_of_processes_that_sign_at_one_time_one_does(mine: RecordFile, tmp_path: Path, own_registry: Path) -> None:
    wants = [(str(mine.path), str(tmp_path / name), str(own_registry)) for name in "abc"]
    with ExitStack() as stack:
        signing = [stack.enter_context(children.started(_signs, *one)) for one in wants]
        assert sorted(children.exit_code(child) for child in signing) == [0, 1, 1]


def _signs(file: str, state: str, registry: str) -> None:
    os.environ["CRESCENDO_REGISTRY"] = registry
    with opened(RecordFile(Path(file)), Path(state)) as ledger:
        sign(ledger)


def test_the_registry_is_changed_by_one_process_at_a_time(own_registry: Path) -> None:
    with (
        LedgerRegistry.here().changing(),
        (own_registry / "registry.lock").open() as another,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with LedgerRegistry.here().changing() as known:
        assert known.ledgers == []


def test_a_pipe_cannot_be_known_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UsageError, match="can be read only once; save the records"):
        opened(RecordFile(tmp_path / "pipe.csv"), tmp_path / "a")


# -- copies of a ledger


def test_a_whole_folder_put_back_from_a_snapshot_is_refused(mine: RecordFile, tmp_path: Path) -> None:
    """With ``FILE.lock``, which was the only note there was."""
    spent(mine, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "snapshot")
    with opened(mine, tmp_path / "a") as ledger:
        store(ledger, 1, b"one")
    shutil.rmtree(tmp_path / "a")
    shutil.copytree(tmp_path / "snapshot", tmp_path / "a")
    with pytest.raises(DataError, match="has 3 entries, and the registry saw 4; put the newest copy back"):
        opened(mine, tmp_path / "a")
    registry_upkeep.forget_ledger(tmp_path / "a" / "ledger.sqlite")
    opened(mine, tmp_path / "a").close()


def test_a_ledger_that_was_moved_is_followed_and_a_copy_is_refused(mine: RecordFile, tmp_path: Path) -> None:
    log: list[Any] = []
    spent(mine, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(DataError, match=re.escape(f"is a copy of {tmp_path}/a/ledger.sqlite, and only one")):
        opened(mine, tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    opened(mine, tmp_path / "b", log).close()
    assert log == [f"was moved from {tmp_path}/a/ledger.sqlite"]
    opened(mine, tmp_path / "b", log).close()
    assert len(log) == 1


def test_a_kill_between_the_ledger_and_the_registry_loses_nothing(
    mine: RecordFile, tmp_path: Path, own_registry: Path
) -> None:
    path = spent(mine, tmp_path / "a")
    for place in ("wrote", "signing"):
        args = str(mine.path), str(path.parent), str(own_registry), place
        assert children.run(_killed_at, *args) == -signal.SIGKILL
        with opened(mine, tmp_path / "a") as ledger:
            assert ledger.last_round("f") == 1
    with opened(mine, tmp_path / "a") as ledger:
        assert [release.data for release in ledger.unacknowledged("f")] == [b"zero", b"one"]


def _killed_at(file: str, state: str, registry: str, place: str) -> None:
    """Die after the ledger's transaction and before the note of it, or after the registry and before the signature."""
    os.environ["CRESCENDO_REGISTRY"] = registry
    with opened(RecordFile(Path(file)), Path(state)) as ledger:
        done = getattr(registered_ledger._Guard, place)

        def dying(guard: Any, *given: Any) -> None:
            if place == "signing":
                done(guard)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(registered_ledger._Guard, place, dying)
        store(ledger, 1, b"one") if place == "wrote" else sign(ledger, "g")


# -- ledgers from before, and the registry itself


def test_a_ledger_from_before_there_was_a_registry_goes_on_and_is_registered(mine: RecordFile, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with begun(tmp_path / "old" / "ledger.sqlite") as ledger:
        store(ledger, 0, b"zero")
    log: list[Any] = []
    with opened(mine, tmp_path / "old", log) as ledger:
        store(ledger, 1, b"one")
    assert log == ["was registered: from now on it is the only one of these records"]
    with pytest.raises(Refused, match="have a ledger already"):
        opened(mine, tmp_path / "b")


def test_without_its_registry_a_ledger_is_registered_again(
    mine: RecordFile, tmp_path: Path, own_registry: Path
) -> None:
    spent(mine, tmp_path / "a")
    log: list[Any] = []
    with opened(mine, tmp_path / "a") as ledger:
        shutil.rmtree(own_registry)
        with pytest.raises(UsageError, match="was replaced meanwhile; start again"):
            sign(ledger, "g")
    opened(mine, tmp_path / "a", log).close()
    assert log == ["was registered: from now on it is the only one of these records"]
    with pytest.raises(Refused, match="have a ledger already"):
        opened(mine, tmp_path / "b")


def test_a_registry_that_cannot_be_written_or_read_is_said(
    mine: RecordFile, tmp_path: Path, own_registry: Path
) -> None:
    own_registry.parent.mkdir(exist_ok=True)
    own_registry.write_text("a file in its place")
    with pytest.raises(UsageError, match=r"registry of ledgers .* cannot be written .*; set CRESCENDO_REGISTRY to a"):
        opened(mine, tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())
    own_registry.unlink()
    spent(mine, tmp_path / "a")
    file = own_registry / "registry.json"
    sound = file.read_text()
    for damaged in (sound[: len(sound) // 2], "[]", "{}", sound.replace('"key": "', '"key": "x'), '{"format": "x"}'):
        file.write_text(damaged)
        with pytest.raises(DataError, match=r"registry.json cannot be read .*; put a sound copy back"):
            opened(mine, tmp_path / "b")
    file.write_text(sound.replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match="has format 2 of a registry of ledgers"):
        opened(mine, tmp_path / "b")


def test_the_registry_is_for_its_owner_and_holds_no_record(
    mine: RecordFile, tmp_path: Path, own_registry: Path
) -> None:
    path = spent(table(mine.path, ROWS[:5]), tmp_path / "a")
    modes = {found.name: found.stat().st_mode & 0o777 for found in [own_registry, *own_registry.rglob("*")]}
    assert set(modes.values()) == {0o700, 0o600} and {modes[own_registry.name], modes["heads"]} == {0o700}
    (one,) = json.loads((own_registry / "registry.json").read_text())["ledgers"]
    assert one["path"] == str(path) and len(one["records"]) == 5 * 16
    everything = b"".join(found.read_bytes() for found in own_registry.rglob("*") if found.is_file())
    assert not any(str(cell).encode() in everything for cell in ROWS[:5].ravel())


def test_without_a_budget_nothing_is_registered(mine: RecordFile, tmp_path: Path, own_registry: Path) -> None:
    for name in "ab":
        state = tmp_path / name
        state.mkdir()
        ledger_for(mine, Policy.model_validate({"mechanisms": ["none"]}), state).close()
    assert not own_registry.exists()


# -- what the owner says


def test_a_lost_ledger_is_answered_for_and_then_forgotten(mine: RecordFile, tmp_path: Path) -> None:
    kept = spent(mine, tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    for state in "ab":  # not where it was, either
        with pytest.raises(
            Refused, match=f"which is gone, so its spending is not known; .* `crescendo account --forget {kept}`"
        ):
            opened(mine, tmp_path / state)
    assert "what it has spent of them counts no longer" in registry_upkeep.forget_ledger(kept)
    spent(mine, tmp_path / "b")
    with pytest.raises(UsageError, match=f"has no ledger {kept}; it knows {tmp_path}/b/ledger.sqlite"):
        registry_upkeep.forget_ledger(kept)


def test_other_records_that_are_alike_are_said_to_be(mine: RecordFile, tmp_path: Path) -> None:
    spent(mine, tmp_path / "a")
    says = registry_upkeep.register_apart(tmp_path / "b" / "ledger.sqlite")
    assert "is for other records than the one other ledger" in says
    spent(mine, tmp_path / "b")
    opened(mine, tmp_path / "a").close()
    with pytest.raises(Refused, match="have a ledger already"):
        opened(mine, tmp_path / "c")
    listed = registry_upkeep.registered_ledgers()["ledgers"]
    assert [(one["state"], one["epsilon"], one["spent"] > 0) for one in listed] == [("there", 2.0, True)] * 2


# -- a witness on other storage


def test_a_witness_knows_what_was_put_back_with_its_registry(
    mine: RecordFile, tmp_path: Path, own_registry: Path
) -> None:
    witness = str(tmp_path / "witness")
    path = spent(mine, tmp_path / "a", witness=witness)
    for folder in (tmp_path / "a", own_registry):
        shutil.copytree(folder, f"{folder}.kept")
    with opened(mine, tmp_path / "a", witness=witness) as ledger:
        store(ledger, 1, b"one")
    for folder in (tmp_path / "a", own_registry):
        shutil.rmtree(folder)
        shutil.copytree(f"{folder}.kept", folder)
    with pytest.raises(DataError, match=f"is older than its witness {witness}: it has 3 entries where 4 were written"):
        opened(mine, tmp_path / "a", witness=witness)
    with open_ledger(path) as ledger:
        assert ledger.last_round("f") == 0


def test_a_witness_that_is_not_there_is_said_or_begun_knowingly(mine: RecordFile, tmp_path: Path) -> None:
    spent(mine, tmp_path / "a")
    witness = tmp_path / "witness"
    with pytest.raises(DataError, match="mount its disk, or, if there never was one, make an empty file"):
        opened(mine, tmp_path / "a", witness=str(witness))
    witness.touch()
    opened(mine, tmp_path / "a", witness=str(witness)).close()
    witness.write_bytes(witness.read_bytes().replace(b"3", b"2", 1))
    with pytest.raises(DataError, match="is damaged, or is no witness of the ledger"):
        opened(mine, tmp_path / "a", witness=str(witness))
    with pytest.raises(UsageError, match=r"the witness .* cannot be written"):
        opened(table(tmp_path / "other.csv", ROWS + 1), tmp_path / "b", witness=str(tmp_path / "no" / "witness"))


def test_nothing_is_sent_that_the_witness_does_not_know(
    mine: RecordFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with opened(mine, tmp_path / "a", witness=str(tmp_path / "witness")) as ledger:
        sign(ledger)
        with monkeypatch.context() as patch, pytest.raises(UsageError, match="no space left on device"):
            patch.setattr(system, "fdatasync", full)
            store(ledger, 0, b"zero")
        assert ledger.is_closed
    with opened(mine, tmp_path / "a", witness=str(tmp_path / "witness")) as ledger:
        assert [release.data for release in ledger.unacknowledged("f")] == [b"zero"]
