"""Ctrl-C is never lost, wherever Python happens to be when it comes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crescendo import interrupts
from crescendo.cli.common import one_sentence
from crescendo.cli.main import app
from crescendo.config import loading
from crescendo.network.transport.shutdown import ShutdownRequest
from tests.config.small import TOML


@pytest.fixture(autouse=True)
def started() -> Iterator[None]:
    """Interrupts as the command's first lines leave them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.leave_at_once()
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)
    until_heard()


def until_heard() -> None:
    """Wait for the signal, which ends the wait; not for ever."""
    threading.Event().wait(60)
    raise AssertionError("no interrupt came")


def swallowed() -> None:
    with suppress(KeyboardInterrupt):
        interrupt()


class Referred:
    pass


def test_an_interrupt_in_a_callback_from_which_nothing_spreads_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    def dropped() -> None:
        referred = Referred()
        reference = weakref.ref(referred, interrupt)
        del referred
        assert reference() is None
        until_heard()

    with interrupts.heeded(), pytest.raises(KeyboardInterrupt):
        dropped()
    assert capsys.readouterr().err == ""


def test_a_run_whose_interrupt_a_library_swallowed_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = loading.read

    def reading(*arguments: Any) -> Any:
        swallowed()
        return read(*arguments)

    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    monkeypatch.setattr(loading, "read", reading)
    found = CliRunner().invoke(app, ["run", "small.toml"])
    assert (found.exit_code, found.stderr, Path("runs").exists()) == (130, "crescendo: stopped\n", False)


def test_an_interrupt_that_an_import_made_another_error_of_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, one_sentence():
        swallowed()
        raise ImportError("this library is broken")
    assert (ended.value.exit_code, capsys.readouterr().err) == (130, "crescendo: stopped\n")


IN_EXEC = """
import sys, typer
from crescendo.cli.common import one_sentence
try:
    with one_sentence():
        exec("raise KeyboardInterrupt")  # as while a named tuple is made
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


@pytest.mark.slow
def test_an_interrupt_in_code_that_an_import_makes_ends_with_130_and_not_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(IN_EXEC)
    command = [sys.executable, "-m", "interrupted"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stderr) == (130, "crescendo: stopped\n")


def test_one_that_was_swallowed_before_is_a_request_to_shut_down() -> None:
    async def requested(shutdown: ShutdownRequest) -> bool:
        return shutdown.event().is_set()

    with interrupts.heeded():
        swallowed()
        with ShutdownRequest.on_signals() as shutdown:
            assert asyncio.run(requested(shutdown))
    with interrupts.heeded(), ShutdownRequest.on_signals() as shutdown:  # of the next command, nothing is known
        assert not asyncio.run(requested(shutdown))
