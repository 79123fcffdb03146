"""Runs the blocks of a page, in order, in an empty folder that has the examples in it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.docs.pages import ROOT, Block, blocks, name
from tests.network.processes import free_port

SHELL = re.compile(r"[|&;<>$*]")
ADDRESSES = ("10.77.0.1:7077", "10.77.0.2:7077", "127.0.0.1:7077", "127.0.0.1:8080")
LONGEST = 240  # seconds until a process is taken for one that hangs; the slowest took 67 at a load of 13 on two cores


class Page:
    """One page's folder, namespace and processes."""

    def __init__(self, page: Path, folder: Path, data: Path | None) -> None:
        self.page, self.folder, self.data = page, folder, data
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.running: list[tuple[Block, subprocess.Popen[str]]] = []
        self.waiting: list[Block] = []
        self.ports = dict(zip(ADDRESSES, (f"127.0.0.1:{free_port()}" for _ in ADDRESSES), strict=True))
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))

    def run(self) -> None:
        try:
            for block in grouped(blocks(self.page)):
                self._run(block)
            self._wait()
        finally:
            for _, process in self.running:
                _killed(process)

    def _run(self, block: Block | list[Block]) -> None:
        if isinstance(block, list):
            self.running += [(one, self._started(one)) for one in block]
            self._wait()
            return
        if block.noted("wait"):
            self._wait()
        if block.noted("not run") or ("a9a" in block.text and self.data is None):
            return
        if block.title == "prints":
            _expect(block, self.printed)
        elif block.title is not None and block.language != "sh":
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._here(block.quick))
        elif block.language == "python":
            self.printed = self._python(block)
        elif any(block.noted("run in the background")):
            self.waiting.append(block)
        elif block.noted("run in the background"):
            self.running.append((block, self._started(block)))
        elif block.language == "sh":
            self.printed = "".join([self._command(block, line) for line in commands(self._here(block.quick))])

    def _here(self, text: str) -> str:
        for address, free in self.ports.items():
            text = text.replace(address, free)
        return text

    def _python(self, block: Block) -> str:
        for file in block.noted("run after"):
            example = Path(file).read_text().replace('"rounds": 60', '"rounds": 2')
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example, file, "exec"), self.namespace)
        code = compile("\n" * (block.line - 1) + block.quick, name(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out, _failing(block):
            exec(code, self.namespace)
        return out.getvalue()

    def _command(self, block: Block, line: str) -> str:
        words = shlex.split(line, comments=True)
        expected = int((block.noted("exits with") or ["0"])[0].partition(",")[0])
        if words[0] == "cd":
            os.chdir(words[1])
            return ""
        if words[0] == "crescendo" and not SHELL.search(line):
            from crescendo.cli.main import app

            found = CliRunner().invoke(app, words[1:])
            code, out, err = found.exit_code, found.stdout, found.stderr
        else:
            process = _shell(line)
            out, err = _ended(process)
            code = process.returncode
        assert code == expected, f"{block.place}: `{line}` ended with {code}:\n{out}\n{err}"
        return out

    def _started(self, block: Block) -> subprocess.Popen[str]:
        return _shell("set -e\n" + self._here(block.quick))

    def _wait(self) -> None:
        """Until every process of this page has ended; one that failed, or hangs, is told with what all of them wrote."""
        self.running += [(block, self._started(block)) for block in self.waiting]
        self.waiting = []
        ended = [(block, process, "".join(_ended(process))) for block, process in self.running]
        self.running = []
        told = "\n".join(f"{block.place} ended with {process.returncode}:\n{said}" for block, process, said in ended)
        assert all(process.returncode == 0 for _, process, _ in ended), told


def _shell(script: str) -> subprocess.Popen[str]:
    """In a session of its own, so that what the shell started can be ended with it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(["bash", "-c", script], stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return _killed(process)


def _killed(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The shell alone is not enough: a child of it that lives on holds the pipes open, and reading them would never end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate(timeout=LONGEST)


def commands(text: str) -> list[str]:
    """The lines of a block as commands: continued lines joined, comments and the way to this checkout's commands left out.

    >>> commands("crescendo run \\\\\\n  a.toml  # runs\\n\\n# a remark\\n.venv/bin/crescendo doctor\\n")
    ['crescendo run a.toml', 'crescendo doctor']
    """
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    bare = (re.sub(r"(^|\s+)#.*", "", line).replace(".venv/bin/", "").strip() for line in lines)
    return [line for line in bare if line]


def grouped(found: Iterator[Block]) -> Iterator[Block | list[Block]]:
    """The blocks; those of several terminals that follow each other are one list."""
    terminals: list[Block] = []
    for block in found:
        if block.language == "sh" and (block.title or "").startswith("Terminal"):
            terminals.append(block)
            continue
        if terminals:
            yield terminals
            terminals = []
        yield block
    if terminals:
        yield terminals


def _expect(block: Block, printed: str) -> None:
    """Each line of the block is a line that was printed, whatever the spaces."""
    have = [" ".join(line.split()) for line in printed.splitlines()]
    for line in block.text.splitlines():
        wanted = ".*".join(re.escape(part) for part in " ".join(line.split()).split("..."))
        assert any(re.fullmatch(wanted, one) for one in have), (
            f"{block.place}: {line!r} is not printed, but:\n{printed}"
        )


@contextlib.contextmanager
def _failing(block: Block) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{block.place} failed with {type(error).__name__}: {error}") from error


def tools(folder: Path) -> Path:
    """A folder with the commands that pages call: crescendo and python, of the Python that runs the tests."""
    folder.mkdir()
    for command, words in (("crescendo", "-m crescendo"), ("python", ""), ("python3.11", "")):
        file = folder / command
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        file.chmod(0o755)
    return folder
