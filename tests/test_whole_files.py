"""Files that are there whole or not at all: the terms and the last model of a federation."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo import system
from crescendo.federation.last_model import LastModel
from crescendo.network.server.serve import _keep_terms
from crescendo.whole_files import make_folder, whole_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced and renamed, in order."""
    found: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        found.append(f"sync {Path(f'/proc/self/fd/{file}').readlink().name}")
        fsync(file)

    def renamed(source: Any, target: Any, **more: Any) -> None:
        found.append(f"rename {Path(target).name}")
        replace(source, target, **more)

    monkeypatch.setattr(system, "fsync", synced)
    monkeypatch.setattr(system, "replace", renamed)
    return found


def test_terms_and_model_are_synced_before_they_have_their_names_and_the_folder_after(
    tmp_path: Path, steps: list[str]
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    _keep_terms(folder / "terms.json", b"{}")
    LastModel(np.ones(3), "f", "digest").save(folder / "model.npz")
    assert steps == [
        *("sync terms.draft", "rename terms.json", "sync state"),
        *("sync model.draft", "rename model.npz", "sync state"),
    ]
    assert {path.name: mode_of(path) for path in folder.iterdir()} == {"terms.json": 0o600, "model.npz": 0o600}


def test_terms_and_model_that_are_there_are_not_written_again(tmp_path: Path, steps: list[str]) -> None:
    for _ in range(3):
        _keep_terms(tmp_path / "terms.json", json.dumps({"terms": "t"}).encode())
        LastModel(np.ones(3), "f", "digest").save(tmp_path / "model.npz")
    assert [step for step in steps if step.startswith("rename")] == ["rename terms.json", "rename model.npz"]
    LastModel(np.zeros(3), "f", "digest").save(tmp_path / "model.npz")
    assert steps[-2] == "rename model.npz"


def test_what_fails_on_the_way_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "terms.json"
    _keep_terms(path, b"old")
    with pytest.raises(RuntimeError), whole_file(path) as out:
        out.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["terms.json"], "on a full disk a draft would hold the last room"


def test_a_new_state_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "above" / "state")
    assert mode_of(tmp_path / "above" / "state") == 0o700
