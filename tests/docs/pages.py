"""The pages as blocks: what a fence is called says what a test does with it.

========================  ==================================================================================================
``python``                run, in one namespace for the page
``sh``                    run, line by line, in the page's folder; blocks titled "Terminal .." that follow each other run at once
any, ``title="FILE"``     written to that file in the page's folder
``text title="prints"``   the block before it printed these lines, among others; ``...`` in a line stands for anything
``usage``                 the synopsis of a command, held against the command line itself
``toml``                  its keys are those of a run file, a part of one, a policy or a schema
``text``, ``pycon`` ..    shown only
========================  ==================================================================================================

A comment before a fence changes that: ``<!-- not run: REASON -->``, ``<!-- run with: OLD => NEW -->`` (as often as needed),
``<!-- run after: FILE -->`` (with that example's names), ``<!-- run in the background -->``, or ``.. background: from the next
wait on``, ``<!-- wait -->`` (for what runs there), ``<!-- exits with: 1 -->``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ABOVE = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")]
PAGES = [*ABOVE, *sorted(DOCS.rglob("*.md"))]
URLS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY = URLS["Repository"]
"""The project's address. Pages that are read away from the repository, README first, link to its files by it."""
RAW = REPOSITORY.replace("https://github.com/", "https://raw.githubusercontent.com/")

_FENCE = re.compile(r'^(?P<indent> *)```(?P<language>\w*)(?: +title="(?P<title>[^"]+)")?(?P<rest>.*)$')
_NOTE = re.compile(
    r"^ *<!-- (?P<word>not run|run with|run in the background|run after|wait|exits with)(?:: (?P<says>.+))? -->$"
)


@dataclass
class Block:
    """A fence with what stands before it; ``line`` is that of its first line of text."""

    page: Path
    line: int
    language: str
    title: str | None  # a file, "Terminal 1", "prints", or none
    text: str
    notes: list[tuple[str, str]] = field(default_factory=list)

    def noted(self, word: str) -> list[str]:
        return [says for said, says in self.notes if said == word]

    @property
    def place(self) -> str:
        return f"{name(self.page)}:{self.line}"

    @property
    def quick(self) -> str:
        """The text with what "run with" puts in place of what takes long; what it replaces must be there."""
        text = self.text
        for swap in self.noted("run with"):
            old, arrow, new = swap.partition(" => ")
            assert arrow and old in text, f"{self.place}: 'run with' names {old!r}, which the block does not have"
            text = text.replace(old, new)
        return text


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Every fence of a page, in order. A fence that is never closed, or that says what nobody understands, is an error."""
    lines, notes = page.read_text().splitlines(), list[tuple[str, str]]()
    at = 0
    while at < len(lines):
        note, fence = _NOTE.match(lines[at]), _FENCE.match(lines[at])
        at += 1
        if note:
            notes.append((note["word"], note["says"] or ""))
        elif fence:
            assert not fence["rest"], f"{name(page)}:{at}: {fence['rest']!r} after the fence"
            end = lines.index(f"{fence['indent']}```", at)
            text = "\n".join(line[len(fence["indent"]) :] for line in lines[at:end]) + "\n"
            yield Block(page, at + 1, fence["language"], fence["title"], text, notes)
            notes, at = [], end + 1
        elif lines[at - 1].strip():
            assert not notes, f"{name(page)}:{at}: a comment about a block, and no block after it"
