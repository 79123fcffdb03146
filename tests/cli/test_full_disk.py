"""A full disk is named by the path that could not be written, and nothing half-written stays."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo import system
from crescendo.cli.main import app
from crescendo.config.loading import read
from crescendo.whole_files import blamed_on
from tests.config.small import SMALL

PLAN = ["plan", "--epsilon", "1", "--delta", "1e-5", "--records", "100", "--gradients", "200", "--rounds", "10"]


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files can be made in this folder, as on a full disk, and no byte of text or array fits into one."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(read(SMALL).to_toml())
    real = os.fsync

    def no_room(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def sync(file: int) -> None:
        if str(tmp_path) in str(Path(f"/proc/self/fd/{file}").readlink()):
            no_room()
        real(file)

    for module in (system, os):  # the network's files, and a plan's
        monkeypatch.setattr(module, "fsync", sync)
    monkeypatch.setattr(Path, "write_text", no_room)
    return tmp_path


def said(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 1 and found.stdout == "" and found.stderr.count("\n") == 1, found.output
    return found.stderr


def test_a_plan_leaves_nothing_behind(full: Path) -> None:
    assert said(*PLAN, "--write", "plan.toml") == (
        "crescendo: the plan cannot be written to plan.toml: no space left on device; name another file with --write\n"
    )
    assert [path.name for path in full.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["run", "run.toml", "--out", "out/r"], "out/r"),
        (["sweep", "run.toml", "--over", "run.seed=0..1", "--out", "sw"], "sw"),
    ],
)
def test_a_run_and_a_sweep_name_their_folder(words: list[str], folder: str, full: Path) -> None:
    sentence = said(*words)
    assert sentence.startswith(f"crescendo: the disk of {folder}")
    assert sentence.endswith(" is full: no space left on device; free some space, or name a folder on another disk\n")
    assert [path.name for path in full.iterdir()] == ["run.toml"]


def test_an_error_that_names_a_file_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as found, blamed_on(tmp_path):
        (tmp_path / "nowhere").read_bytes()
    assert found.value.filename == str(tmp_path / "nowhere")


def test_an_authority_is_whole_or_none_and_made_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up at every file in turn; what stays behind is whole, and the same command ends what it began."""
    pytest.importorskip("cryptography")
    real, synced, room = os.fsync, 0, 0

    def sync(file: int) -> None:
        nonlocal synced
        if Path(f"/proc/self/fd/{file}").readlink().is_file():
            synced += 1
            if synced > room:
                os.ftruncate(file, 10)
                raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(system, "fsync", sync)
    for room in range(4):
        keys, synced = tmp_path / f"keys {room}", 0
        assert "no space left on device" in said("certs", str(keys), "--client", "alice").lower()
        left = [path for path in keys.rglob("*") if path.is_file()]
        assert len(left) <= room and all(path.stat().st_size > 10 for path in left), "no draft, and nothing cut short"
        synced = -1000
        assert CliRunner().invoke(app, ["certs", str(keys), "--client", "alice"]).exit_code == 0
        assert (keys / "clients" / "alice" / "ca.pem").read_bytes() == (keys / "authority" / "ca.pem").read_bytes()
