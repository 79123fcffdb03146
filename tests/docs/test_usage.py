"""docs/cli.md is the whole command line: a section for every command, and in its synopsis every option and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from crescendo.cli.main import app
from tests.docs.pages import DOCS, blocks

EVERYWHERE = {"--help", "--install-completion", "--show-completion"}


def of_the_app() -> Iterator[tuple[str, set[str]]]:
    """Every command with its options; `certs make` is written without its second word."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            for word, below in command.commands.items():
                yield (f"{name} {word}" if word != "make" else name), _options(below)
        elif not command.hidden:
            yield name, _options(command)


def _options(command: Any) -> set[str]:
    shown = (one for one in command.params if not getattr(one, "hidden", False))
    return {flag for one in shown for flag in one.opts if flag.startswith("--")} - EVERYWHERE


APP = dict(of_the_app())


def of_the_page() -> dict[str, set[str]]:
    """Every synopsis of the page: the command's words, and the options in all its lines."""
    found: dict[str, set[str]] = {}
    groups = "|".join({command.partition(" ")[0] for command in APP if " " in command})
    for block in blocks(DOCS / "cli.md"):
        if block.language == "usage":
            for line in re.sub(r"\n +", " ", block.text).splitlines():
                words = re.match(rf"crescendo ((?:(?:{groups}) )?[a-z]+\b|certs)", line)
                assert words, f"{block.place}: {line}"
                found.setdefault(words[1], set()).update(re.findall(r"--[a-z][a-z0-9-]*", line))
    return found


PAGE = of_the_page()


@pytest.mark.parametrize("command", sorted(APP))
def test_a_command_is_documented_with_all_its_options(command: str) -> None:
    assert PAGE.get(command) == APP[command], f"docs/cli.md: the synopsis of crescendo {command}"


def test_nothing_is_documented_that_is_not_there() -> None:
    assert set(PAGE) == set(APP)
