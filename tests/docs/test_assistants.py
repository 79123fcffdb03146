"""SKILL.md and llms.txt, for coding assistants: short, well-formed, and on the side of a true epsilon."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, RAW, blocks

SKILL = (DOCS / "SKILL.md").read_text()
LLMS = (DOCS / "llms.txt").read_text()


def test_the_skill_begins_with_its_name_and_when_to_use_it() -> None:
    """The two fields that an assistant reads before it decides to open the page."""
    found = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", SKILL)
    assert found and found[1] == "crescendo" and len(found[2]) <= 1024 and "Use for" in found[2]
    assert len(SKILL.splitlines()) < 200, "an assistant reads all of it, each time"


def test_the_skill_refuses_a_false_epsilon() -> None:
    rules = SKILL.partition("## Rules")[2].partition("\n## ")[0]
    for words in (
        "never read them off the records",
        "no epsilon that Crescendo did not state",
        "simulated epsilon protects nobody",
    ):
        assert words in rules and words in LLMS.replace("\n> ", " ")


def test_every_block_of_the_skill_is_run() -> None:
    kept = list(blocks(DOCS / "SKILL.md"))
    assert not [block.place for block in kept if block.noted("not run")]
    assert {block.language for block in kept} <= {"python", "sh", "text"}
    assert all(block.title == "prints" for block in kept if block.language == "text")


def test_llms_txt_is_a_title_a_summary_and_lists_of_links_to_plain_text() -> None:
    lines = [line for line in LLMS.splitlines() if line]
    assert lines[0] == "# Crescendo" and lines[1].startswith("> ")
    listed = [line for line in lines if line.startswith("- ")]
    assert len(listed) >= 10
    for line in listed:
        assert re.fullmatch(r"- \[[^\]]+\]\((\S+)\)(: .+)?", line), line
        assert f"]({RAW}/main/" in line, "an assistant wants the page's text, not a page around it"
