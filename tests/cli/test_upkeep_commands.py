"""`verify` and `backup` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from crescendo.cli.main import app

BEFORE = Path(__file__).resolve().parents[1] / "before"


def crescendo(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_sound_state_ends_with_0_and_a_damaged_one_with_1_and_a_sentence_for_each_damage(tmp_path: Path) -> None:
    state = Path(shutil.copytree(BEFORE / "served", tmp_path / "served"))
    found = crescendo("verify", state)
    assert found.exit_code == 0 and "sound" in found.stdout
    terms = json.loads((state / "terms.json").read_text())
    (state / "terms.json").write_text(json.dumps({**terms, "terms": terms["terms"].replace("before", "after")}))
    assert "has other terms than the journal" in crescendo("verify", state).stdout
    (state / "terms.json").write_text("{")
    (state / "model.npz").write_bytes(b"")
    assert "()" not in crescendo("verify", state).stdout
    found = crescendo("verify", state)
    assert found.exit_code == 1 and found.stdout.count("cannot be read") == 2 and "DAMAGED" in found.stdout
    found = crescendo("verify", state, "--json")
    said = json.loads(found.stdout)
    assert found.exit_code == 1 and said["sound"] is False and len(said["damage"]) == 2 and said["kind"] == "server"


def test_a_backup_says_what_it_copied_and_a_place_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    said = json.loads(crescendo("backup", BEFORE / "client", tmp_path / "copy", "--json").stdout)
    assert said["sound"] and said["charged"] == 6 and said["path"] == str(tmp_path / "copy")
    again = crescendo("backup", BEFORE / "client", tmp_path / "copy")
    assert again.exit_code == 1 and again.stderr.startswith("crescendo: ") and again.stderr.count("\n") == 1
    assert crescendo("verify", tmp_path / "nothing").stderr.endswith("check the path\n")
