"""The checkpoint of a round: when it is written, who may go on from it, and that a round is charged and released once."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo.network.client.checkpoints as when
from crescendo import system
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import Records, as_records
from crescendo.errors import DataError
from crescendo.network.client.checkpoints import MOST_STARTS, Checkpoints
from crescendo.network.client.participant import Participant
from crescendo.objectives import Logistic
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.minibatch import FrozenStepper
from crescendo.privacy.mechanisms.noise import SeededSource, SystemSource
from crescendo.schedules.sizes import ConstantSizes, CutSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.formats import CHECKPOINT
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo.storage.ledger.outbox import Release
from crescendo.storage.round_checkpoint import RoundCheckpoint, checkpoint_path, remove_stale
from crescendo.storage.state_file import State
from crescendo.worker import Worker
from crescendo_dp.ledger.budget import Budget
from tests import children
from tests.federation.agreements import agreement
from tests.storage.ledger_play import cheap

children.preload("tests.network.preload", __name__)
ROUNDS, SLOTS, COUNT, FEATURES = 3, 12, 40, 4
RNG = np.random.default_rng(1)
RECORDS = as_records(RNG.normal(size=(COUNT, FEATURES)), RNG.choice([0.0, 1.0], COUNT))
GOAL = Logistic(FEATURES, l2=0.05)
TERMS = Terms(
    CutSizes.of_rounds(ConstantSizes(SLOTS), ROUNDS),
    ConstantSteps(0.2),
    (1.0,),
    ROUNDS,
    ahead=ROUNDS,
    whole_rounds=True,
)
MADE = certify("minibatch", TERMS, GOAL, clip=0.5, sigma=2.0, records=(COUNT,), norm_bound=9.0)
AGREED = agreement(TERMS, GOAL, MADE)
DIGEST = AGREED.digest


def write_at_every_piece(patch: pytest.MonkeyPatch) -> None:
    """However long one takes to write, the next is written after the next piece. A kill needs no sync; a power cut would."""
    patch.setattr(when, "SHARE", 0)
    patch.setattr(system, "fsync", lambda handle: None)


@pytest.fixture(autouse=True)
def at_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    write_at_every_piece(monkeypatch)


@dataclass
class Scene:
    """One private client's folder. Each call of `work` is the life of a process, which ends at a slot or after the last round."""

    folder: Path
    every: float = 1e-9
    records: Records = field(default_factory=lambda: RECORDS)
    seed: int | None = 7
    log: list[dict[str, Any]] = field(default_factory=list)
    told: list[Release] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return checkpoint_path(self.folder, DIGEST)

    def opened(self) -> Ledger:
        ledger = open_ledger(self.folder / "ledger.sqlite", Budget(10.0, 1e-3))
        ledger.sign("f", DIGEST, "me", tuple(MADE.event(i, 0) for i in range(ROUNDS)), 1e-6, cheap)
        return ledger

    def participant(self, ledger: Ledger, start: int = 0) -> Participant:
        rows = np.arange(COUNT)
        source = SystemSource() if self.seed is None else SeededSource(self.seed, 0)
        worker = Worker(
            TERMS, 0, np.zeros(GOAL.size), GOAL, self.records, rows, 0, "float64", Private(MADE, 0, rows, source)
        )

        def said(event: str, **facts: Any) -> None:
            self.log.append({"event": event, **facts})

        checkpoints = Checkpoints(self.folder, self.every, AGREED, "me", "instance", self.records, said)
        one = Participant(AGREED, 0, worker, ledger, log=said, checkpoints=checkpoints)
        one._slots = 1  # a piece is a slot
        one.welcomed(start)
        one.hear(Broadcast(np.zeros(GOAL.size), 0, Settled(0)))
        return one

    def work(self, until: int = ROUNDS - 1, slot: int | None = None, start: int = 0, piece: int = 1) -> Participant:
        """Work to the end of round ``until``; with ``slot``, only to that slot of it."""
        with self.opened() as ledger:
            one = self.participant(ledger, start)
            worker, run = one._worker, one._worker.run

            def pieces(slots: int) -> None:
                run(piece)
                if (worker.client.round, worker.client.h) == (until, slot):
                    one.stop()

            worker.run = pieces  # type: ignore[method-assign]

            def tell(done: Release) -> None:
                self.told.append(done)
                if done.round == until:
                    one.stop()

            one.work(tell)
            return one

    def events(self) -> list[str]:
        return [facts["event"] for facts in self.log]

    def charges(self) -> list[int]:
        with self.opened() as ledger:
            account = ledger.account("f")
            assert account is not None
            return list(account.charged)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Release]:
    """What a client that is never killed releases."""
    scene = Scene(tmp_path_factory.mktemp("whole"), every=0.0)
    scene.work()
    return scene.told


# -- when


def test_a_round_that_is_shorter_than_the_interval_writes_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, every=3600.0)
    scene.work(slot=11)
    assert not list(tmp_path.glob("round-*")) and scene.events() == []


def test_the_interval_is_work_and_writing_takes_a_small_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(when, "SHARE", 50)
    made = Checkpoints(tmp_path, 10.0, AGREED, "me", "instance", RECORDS)
    asked: list[int] = []
    monkeypatch.setattr(system, "perf_counter", iter([0.0, 3.0, 10.0, 11.0]).__next__)  # it takes 3 s, then 1 s
    for step in range(200):
        made.worked(1.0)
        made.write_if_due(lambda at=step: asked.append(at))  # type: ignore[misc]  # which exports nothing
    assert asked[:2] == [9, 9 + 150] and len(asked) == 2


def test_going_on_gives_the_releases_of_a_client_never_killed(tmp_path: Path, whole: list[Release]) -> None:
    scene = Scene(tmp_path)
    for until, slot in ((0, 5), (0, 9), (1, 1), (1, 11), (2, 7)):
        scene.work(until, slot)
        assert scene.path.exists() and stat.S_IMODE(scene.path.stat().st_mode) == 0o600
    scene.work()
    assert scene.told == whole and scene.charges() == [0, 1, 2] and not list(tmp_path.glob("round-*"))
    slots = [(facts["round"], facts["slot"]) for facts in scene.log if facts["event"] == "checkpoint_resumed"]
    assert slots == [(0, 5), (0, 9), (1, 1), (1, 11), (2, 7)] and set(scene.events()) == {"checkpoint_resumed"}


def test_a_full_round_that_waits_for_a_welcome_is_released_by_the_next_process(
    tmp_path: Path, whole: list[Release]
) -> None:
    scene = Scene(tmp_path)
    with scene.opened() as ledger:
        one = scene.participant(ledger)
        run = one._worker.run

        def pieces(slots: int) -> None:
            run(1)
            if one._worker.round_is_full:
                one.introduce()  # a stream is made anew: nothing is charged before its welcome
                one.stop()

        one._worker.run = pieces  # type: ignore[method-assign]
        one.work(scene.told.append)
    assert scene.told == [] and scene.charges() == []
    scene.work()
    assert scene.told == whole and scene.log[0] == {"event": "checkpoint_resumed", "round": 0, "slot": SLOTS}


def test_the_same_records_are_gone_on_with_and_the_noise_is_new(tmp_path: Path) -> None:
    """With the operating system's randomness: a copy of the folder, for the test alone, goes on twice."""
    scene = Scene(tmp_path / "one", seed=None)
    scene.folder.mkdir()
    first = scene.work(0, 8)._worker
    shutil.copytree(scene.folder, tmp_path / "two")
    sent, sums = [], []
    for folder in ("one", "two"):
        other = Scene(tmp_path / folder, seed=None)
        second = other.work(0, 11)._worker
        assert second._slots is not None and first._slots is not None
        np.testing.assert_array_equal(second._slots.rows, first._slots.rows)
        np.testing.assert_array_equal(second._slots.ends, first._slots.ends)
        second.run(1)
        sums.append(second._stepper.read())
        other.work(0)
        sent += other.told
    np.testing.assert_array_equal(sums[0], sums[1])
    assert [one.round for one in sent] == [0, 0] and sent[0].data != sent[1].data


# -- what is not gone on from


def damaged() -> dict[str, Callable[[Path], None]]:
    def changed(at: int, to: Callable[[bytes], bytes]) -> Callable[[Path], None]:
        def change(path: Path) -> None:
            data = path.read_bytes()
            path.write_bytes(data[:at] + to(data[at:]))

        return change

    return {
        "cut short": changed(-3, lambda rest: b""),
        "empty": changed(0, lambda rest: b""),
        "longer": changed(0, lambda rest: rest + b"\0"),
        "a bit of its arrays": changed(-5, lambda rest: bytes([rest[0] ^ 1]) + rest[1:]),
        "a bit of its words": changed(60, lambda rest: bytes([rest[0] ^ 1]) + rest[1:]),
        "a bit of its checksum": changed(9, lambda rest: bytes([rest[0] ^ 1]) + rest[1:]),
        "another format": changed(7, lambda rest: b"2" + rest[1:]),
        "another file": changed(0, lambda rest: b"PK\x03\x04" + rest),
    }


@pytest.mark.parametrize("how", damaged())
def test_a_damaged_checkpoint_is_discarded_with_a_line(how: str, tmp_path: Path, whole: list[Release]) -> None:
    scene = Scene(tmp_path)
    scene.work(1, 6)
    damaged()[how](scene.path)
    scene.work()
    assert scene.told == whole and scene.charges() == [0, 1, 2]
    assert scene.events() == ["checkpoint_discarded"] and not scene.path.exists()
    says = "format 2 and this program knows 1" if how == "another format" else "it is damaged or was cut short"
    assert says in scene.log[0]["reason"]


def rewritten(scene: Scene, **changes: Any) -> None:
    """A checkpoint whose checksum is right."""
    found = RoundCheckpoint.read(scene.path)
    assert found is not None
    about = {**found.about, **{name: value for name, value in changes.items() if name in found.about}}
    client = {**found.client, **{name: value for name, value in changes.items() if name in found.client}}
    made = {**found.made, **{name: value for name, value in changes.items() if name in found.made}}
    found._replace(about=about, client=client, made=made, starts=changes.get("starts", found.starts)).write(scene.path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"terms": "0" * 64}, "it is of other terms"),
        ({"federation": "g"}, "it is of another federation"),
        ({"client": "somebody"}, "it is of another client"),
        ({"ledger": "another"}, "it is of another ledger"),
        ({"program": "0.0.1"}, "it is of another program"),
        ({"build": "0" * 12}, "it is of another build"),
        ({"records": "0" * 32}, "it is of other records"),
        ({"round": 2}, "it is of round 2"),
        ({"me": 1}, "at a slot that the round does not have"),
        ({"h": SLOTS + 1}, "at a slot that the round does not have"),
        ({"h": 0}, "at a slot that the round does not have"),
        ({"rows": np.array([COUNT])}, "names records that do not exist"),
        ({"ends": np.zeros(SLOTS, dtype=np.int64)}, "ends must rise"),
        ({"stepper.sum": np.zeros(1)}, "has no sum of float64"),
        ({"base": np.zeros(1)}, "Error"),
        ({"yours": "?"}, "ValueError"),
        ({"starts": MOST_STARTS}, "processes went on from it and came no further"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_checkpoint_of_something_else_is_discarded_with_a_line(
    changes: dict[str, Any], says: str, tmp_path: Path, whole: list[Release]
) -> None:
    scene = Scene(tmp_path)
    scene.work(1, 6)
    rewritten(scene, **changes)
    scene.work()
    assert scene.told == whole and scene.events() == ["checkpoint_discarded"]
    assert says in scene.log[0]["reason"], scene.log


def test_other_records_draw_the_round_anew(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.work(0, 6)
    scene.records = Records(np.array(RECORDS.x) + 1e-9, RECORDS.y)
    scene.work()
    assert scene.log[0]["reason"] == "it is of other records" and scene.charges() == [0, 1, 2]


def test_a_checkpoint_of_a_round_that_was_released_goes_without_a_word(tmp_path: Path, whole: list[Release]) -> None:
    """A kill between the transaction and the removal."""
    scene = Scene(tmp_path)
    scene.work(0, 6)
    kept = scene.path.read_bytes()
    scene.work(0)
    assert not scene.path.exists()
    scene.path.write_bytes(kept)
    scene.work()
    assert scene.told == whole and scene.events() == ["checkpoint_resumed"]


def test_a_start_that_writes_none_goes_on_from_none_and_leaves_none(tmp_path: Path, whole: list[Release]) -> None:
    scene = Scene(tmp_path)
    scene.work(0, 6)
    scene.every = 0.0
    scene.work()
    assert scene.told == whole and not scene.path.exists() and scene.events() == []


def test_a_checkpoint_that_ends_every_process_is_given_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.work(0, 6)
    for start in range(MOST_STARTS + 1):
        with scene.opened() as ledger:
            scene.participant(ledger)  # and is killed before it gets any further
        expected = ["checkpoint_resumed"] * min(start + 1, MOST_STARTS)
        assert scene.events() == expected + ["checkpoint_discarded"] * (start == MOST_STARTS)


# -- the end of a round


def test_rounds_that_passed_meanwhile_take_their_checkpoint_along(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.work(0, 6)
    scene.work(start=2, until=2)
    assert [done.round for done in scene.told] == [2] and scene.charges() == [2] and not scene.path.exists()
    assert scene.events() == ["checkpoint_resumed", "rounds_void"]


def test_a_round_that_fails_takes_its_checkpoint_along_and_is_never_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, sound = Scene(tmp_path), Private.release

    def fails(self: Private, i: int, *rest: Any) -> Any:
        if i == 0:
            raise MemoryError
        return sound(self, i, *rest)

    monkeypatch.setattr(Private, "release", fails)
    scene.work(0)
    assert scene.told == [Release(0)] and not scene.path.exists() and scene.charges() == [0]
    scene.work(1)
    assert [done.round for done in scene.told] == [0, 1] and scene.charges() == [0, 1]


def test_only_what_belongs_to_an_open_federation_stays_in_the_folder(tmp_path: Path) -> None:
    kept, gone = "a" * 64, "b" * 64
    for terms in (kept, gone):
        checkpoint_path(tmp_path, terms).write_bytes(b"")
    draft = checkpoint_path(tmp_path, kept).with_suffix(".checkpoint-draft")
    draft.write_bytes(b"half of a sum")
    other = [tmp_path / name for name in ("ledger.sqlite", "seen-0.json", "rounds.txt")]
    for path in other:
        path.write_bytes(b"")
    assert remove_stale(tmp_path, [kept]) == []
    assert sorted(tmp_path.iterdir()) == sorted([checkpoint_path(tmp_path, kept), *other])
    stays = checkpoint_path(tmp_path, gone)
    stays.mkdir()
    ((found, why),) = remove_stale(tmp_path, [kept])
    assert found == stays and why in ("is a directory", "operation not permitted")


# -- disks that fail


def test_a_disk_without_room_costs_the_checkpoint_alone(
    tmp_path: Path, whole: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    scene.work(0, 6)
    before = scene.path.read_bytes()

    def full(self: Any, file: Any, kind: Any) -> None:
        file.write(b"CRS")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(State, "write", full)
    scene.work(0, 9)
    assert scene.path.read_bytes() == before and sorted(p.name for p in tmp_path.glob("round-*")) == [scene.path.name]
    scene.work()
    assert scene.told == whole and not scene.path.exists()
    failed = [facts for facts in scene.log if facts["event"] == "checkpoint_failed"]
    assert len(failed) == 2 and failed[0]["reason"] == "no space left on device"  # once for each process


@pytest.mark.parametrize("how", ["none", "ValueError", "SystemExit"])
def test_a_stepper_that_does_not_say_its_state_costs_the_checkpoint_alone(
    how: str, tmp_path: Path, whole: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(self: Any) -> None:
        if how != "none":
            raise {"ValueError": ValueError, "SystemExit": SystemExit}[how]("record 17 of Ann")

    monkeypatch.setattr(FrozenStepper, "export", export)
    scene = Scene(tmp_path)
    scene.work()
    assert scene.told == whole and scene.charges() == [0, 1, 2]
    says = "the model's own stepper does not export its state; give it export and restore" if how == "none" else how
    assert scene.log == [{"event": "checkpoint_failed", "path": str(scene.path), "reason": says}]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_stepper_that_cannot_go_on_draws_the_round_anew(
    error: type[BaseException], tmp_path: Path, whole: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    scene.work(until=1, slot=5)

    def restore(self: Any, state: Any, slots: Any) -> None:
        raise error("record 17 of Ann")

    monkeypatch.setattr(FrozenStepper, "restore", restore)
    scene.work()
    assert scene.told == whole and scene.charges() == [0, 1, 2] and not scene.path.exists()
    facts = {"path": str(scene.path), "round": 1, "reason": error.__name__}
    assert scene.log == [{"event": "checkpoint_discarded", **facts}]


def test_records_that_cannot_be_read_once_more_cost_the_checkpoint_alone(
    tmp_path: Path, whole: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(self: Any) -> str:
        raise MemoryError("record 17 of Ann")

    monkeypatch.setattr(Records, "fingerprint", fingerprint)
    scene = Scene(tmp_path)
    scene.work()
    assert scene.told == whole and scene.charges() == [0, 1, 2]
    assert scene.log == [{"event": "checkpoint_failed", "path": str(scene.path), "reason": "MemoryError"}]


def test_room_for_the_ledger_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(system, "disk_usage", lambda folder: usage._replace(free=1000))
    scene = Scene(tmp_path)
    scene.work(0, 6)
    assert not scene.path.exists() and scene.events() == ["checkpoint_failed"]
    monkeypatch.setattr(system, "disk_usage", lambda folder: usage._replace(total=0, free=0))  # it does not say
    scene.work(0, 6)
    assert scene.path.exists()


@pytest.mark.parametrize("old", [b"", b"readable by all"])
def test_nobody_else_can_read_it_from_its_first_byte_on(
    old: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, seen = Scene(tmp_path), list[int]()
    draft, write = scene.path.with_suffix(".checkpoint-draft"), State.write
    if old:
        draft.write_bytes(old)
        draft.chmod(0o644)

    def looks(self: Any, file: Any, kind: Any) -> None:
        seen.append(stat.S_IMODE(draft.stat().st_mode))
        write(self, file, kind)

    monkeypatch.setattr(State, "write", looks)
    before = os.umask(0)
    try:
        scene.work(0, 3)
    finally:
        os.umask(before)
    assert seen == [0o600] * 3 and stat.S_IMODE(scene.path.stat().st_mode) == 0o600


# -- kills


def killed_at(folder: Path, n: int) -> None:
    """In a child: work, and die as the n-th deed on the disk begins."""
    scene, done = Scene(folder), [0]

    def dying(sound: Callable[..., Any]) -> Callable[..., Any]:
        def deed(*given: Any, **named: Any) -> Any:
            done[0] += 1
            if done[0] == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return sound(*given, **named)

        return deed

    with pytest.MonkeyPatch.context() as patch:
        write_at_every_piece(patch)
        patch.setattr(os, "fchmod", dying(os.fchmod))
        for name in ("open_file", "replace", "unlink"):
            patch.setattr(system, name, dying(getattr(system, name)))
        patch.setattr(system, "fsync", dying(os.fsync))
        patch.setattr(LedgerFile, "append", dying(LedgerFile.append))
        write = State.write

        def written(self: Any, file: Any, kind: Any) -> None:
            write(self, file, kind)
            file.truncate(file.tell() // 2)
            dying(file.flush)()
            file.seek(0)
            write(self, file, kind)

        patch.setattr(State, "write", written)
        scene.work(piece=6)


@pytest.mark.slow
def test_a_kill_at_any_deed_on_the_disk_charges_and_releases_each_round_once(
    tmp_path: Path, whole: list[Release]
) -> None:
    resumed = 0
    for n in itertools.count(1):  # each life ends a little later than the one before, until one ends by itself
        folder = tmp_path / str(n)
        folder.mkdir()
        status = children.run(killed_at, folder, n)
        assert status in (0, -signal.SIGKILL), "the client failed by itself"
        scene = Scene(folder)
        with scene.opened() as ledger:
            before = {one.round: one.data for one in ledger.unacknowledged("f")}
            scene.participant(ledger)  # a start that ends at once
        if ROUNDS - 1 not in before:  # else there is nothing left to do
            scene.work(piece=6)
        assert scene.charges() == [0, 1, 2] and not list(folder.glob("round-*"))
        after = {one.round: one.data for one in scene.told}
        assert not set(before) & set(after) and before | after == {one.round: one.data for one in whole}
        assert set(scene.events()) <= {"checkpoint_resumed"}
        resumed += len(scene.events())
        if status == 0:
            break
    assert n > 20 and resumed > 5


def test_a_checkpoint_that_is_no_file_says_why(tmp_path: Path) -> None:
    path = checkpoint_path(tmp_path, DIGEST)
    assert RoundCheckpoint.read(path) is None
    path.mkdir()
    with pytest.raises(DataError, match="it cannot be read: is a directory"):
        RoundCheckpoint.read(path)
    assert CHECKPOINT.opening == b"CRSROUN1"
