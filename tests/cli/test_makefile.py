"""Setting up, with a Python that only pretends: what `make setup` does with .venv, and with what an earlier one left there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# `-c` is the question whether this is a usable Python (or, in .venv, a virtual environment), `-m venv` makes one.
PYTHON = """#!/bin/sh
case "$1 $2" in
"-c import ensurepip"*) echo "$0" ;;
"-m venv") mkdir -p .venv/bin; touch .venv/pyvenv.cfg; cp "$(dirname "$0")/inside" .venv/bin/python; echo made >> log ;;
esac
"""
INSIDE = """#!/bin/sh
case "$1 $2" in
"-c import pip"*) test -e .venv/pyvenv.cfg ;;
"-m pip") echo "pip virtualenv-only=$PIP_REQUIRE_VIRTUALENV $*" >> log; exit $(cat fails 2>/dev/null || echo 0) ;;
esac
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "dp").mkdir()
    for name in ("Makefile", "pyproject.toml", "dp/pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("python3.11", PYTHON), ("inside", INSIDE)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return tmp_path


def make(copy: Path, target: str = "setup") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{copy / 'tools'}:/usr/bin:/bin"}
    environment.pop("MAKEFLAGS", None)
    return subprocess.run(["make", target], cwd=copy, env=environment, capture_output=True, text=True)


def log(copy: Path) -> list[str]:
    return [line.split()[0] for line in (copy / "log").read_text().splitlines()]


def test_a_first_set_up_says_what_it_costs_and_a_second_does_nothing(copy: Path) -> None:
    first = make(copy)
    assert first.returncode == 0 and "to download" in first.stdout, first.stderr
    assert log(copy) == ["made", "pip"]
    assert "-c constraints.txt -e ./dp -e .[demo]" in (copy / "log").read_text()
    assert make(copy).returncode == 0 and log(copy) == ["made", "pip"]


def test_a_changed_pin_is_installed_into_the_same_environment(copy: Path) -> None:
    make(copy)
    stamp = (copy / ".venv" / "stamps" / "demo").stat().st_mtime
    os.utime(copy / "constraints.txt", (stamp + 10, stamp + 10))
    assert make(copy).returncode == 0 and log(copy) == ["made", "pip", "pip"]


def test_a_set_up_that_was_cut_short_is_made_anew(copy: Path) -> None:
    make(copy)
    (copy / ".venv" / "stamps" / "demo").unlink()
    (copy / ".venv" / "unfinished").touch()
    (copy / ".venv" / "half-a-package").touch()
    assert "cut short" in make(copy).stdout
    assert log(copy) == ["made", "pip", "made", "pip"]
    assert not (copy / ".venv" / "half-a-package").exists() and not (copy / ".venv" / "unfinished").exists()


def test_a_venv_that_lost_its_mark_is_made_anew_and_never_installed_into(copy: Path) -> None:
    """Without pyvenv.cfg its python is the machine's own, and pip would install there."""
    make(copy)
    (copy / ".venv" / "stamps" / "demo").unlink()
    (copy / ".venv" / "pyvenv.cfg").unlink()
    assert make(copy).returncode == 0
    assert log(copy) == ["made", "pip", "made", "pip"]


def test_pip_may_install_into_a_virtual_environment_only(copy: Path) -> None:
    make(copy)
    assert "pip virtualenv-only=1 " in (copy / "log").read_text()


@pytest.mark.parametrize(("status", "kept"), [(1, False), (137, True)])
def test_when_pip_fails_there_is_no_stamp_and_only_a_killed_pip_counts_as_cut_short(
    copy: Path, status: int, kept: bool
) -> None:
    (copy / "fails").write_text(str(status))
    found = make(copy)
    assert found.returncode != 0 and "pip could not install .[demo]" in found.stderr
    assert not (copy / ".venv" / "stamps" / "demo").exists()
    assert (copy / ".venv" / "unfinished").exists() == kept
