"""Commands that are refused in one sentence, run in a folder of their own; nothing may be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.config.loading import read
from tests.cli.joining_clients import ONE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("ok.toml").write_text(read(ONE).to_toml())
    Path("bare.toml").write_text(read({k: v for k, v in ONE.items() if k != "serve"}).to_toml())
    Path("p.toml").write_text('mechanisms = ["none"]')
    Path("mine.csv").write_text("a,b\n1,2\n")
    return tmp_path


def refused(*words: str) -> str:
    """The sentence; nothing may be there that was not there before."""
    before = sorted(Path().rglob("*"))
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 1, found.output
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1, found.stderr
    assert sorted(Path().rglob("*")) == before, "something was written"
    return found.stderr


def serve(*words: str, file: str = "ok.toml", listen: str = "127.0.0.1:0", state: str = "served") -> str:
    return refused("serve", file, "--listen", listen, "--state", state, *words)
