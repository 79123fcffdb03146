"""A shell completes commands and options itself, and leaves files to the shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("crescendo st", ["status"]),
        ("crescendo serve --li", ["--listen", "--linger"]),
        ("crescendo data ", ["list", "get", "schema"]),
        ("crescendo run examples/fl", []),  # the shell's own completion of files
    ],
)
def test_words_are_completed(words: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_CRESCENDO_COMPLETE": "complete_bash"}
    shown = CliRunner().invoke(app, [], env=asked, prog_name="crescendo")
    assert shown.exit_code == 0 and shown.output.split() == found


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_takes_the_script_that_is_shown(tmp_path: Path) -> None:
    command = tmp_path / "crescendo"
    command.write_text(f"#!{sys.executable}\nfrom crescendo.__main__ import main\nmain()\n")
    command.chmod(0o755)
    script = (
        f'eval "$(_CRESCENDO_COMPLETE=source_bash {command})"; '
        f"COMP_WORDS=({command} st); COMP_CWORD=1; _crescendo_completion {command}; "
        'echo "${COMPREPLY[@]}"; complete -p crescendo'
    )
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert shown.stdout.splitlines() == ["status", "complete -o default -F _crescendo_completion crescendo"], (
        shown.stderr
    )
