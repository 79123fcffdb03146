"""Every command and every block of code in README and docs runs, in order, in an empty folder. A failure names page and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks, name
from tests.docs.prepared import PREPARED
from tests.docs.running import Page, tools

LANGUAGES = {"python", "sh", "toml", "usage", "text", "pycon", "ini", "yaml", "json", "csv"}
NOT_RUN_AT_MOST = 14
EVERY = [block for page in PAGES for block in blocks(page)]
RUN = [page for page in PAGES if any(block.language in ("python", "sh") for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_a_page_runs_as_it_stands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "jax", "grpc", "pandas"):
        pytest.importorskip(module, reason="the pages show every extra")
    data = ROOT.parent / "shared" / "data"
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PATH", f"{tools(tmp_path / 'tools')}:{os.environ['PATH']}")
    if data.is_dir():
        monkeypatch.setenv("CRESCENDO_DATA", os.fspath(data))
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    if name(page) in PREPARED:
        PREPARED[name(page)](folder)
    Page(page, folder, data if data.is_dir() else None).run()


@pytest.mark.parametrize("block", EVERY, ids=lambda block: block.place)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block.place}: say what the block is: ```sh, ```usage, ```text .."
    for reason in block.noted("not run"):
        assert len(reason) > 10, f"{block.place}: why can it not be run?"


def test_few_blocks_cannot_be_run() -> None:
    kept = [block.place for block in EVERY if block.noted("not run")]
    assert len(kept) <= NOT_RUN_AT_MOST, kept


def test_the_walk_from_a_table_to_a_private_report_is_six_lines() -> None:
    """What a reader with a table types on both pages, up to the report: commands, and whole lines of files."""
    second, third = (ROOT / "docs" / "tutorial" / page for page in ("own_data.md", "private.md"))
    own = [block for block in blocks(second) if block.language == "sh"][1:]  # the first makes a table up
    report = next(block.line for block in blocks(third) if block.title == "prints")
    private = [block for block in blocks(third) if block.line < report]
    typed = [line for block in own + private for line in block.text.splitlines()]
    assert len(typed) == 6, typed
    assert "you type six lines" in second.read_text() and "other four of the six lines" in third.read_text()
