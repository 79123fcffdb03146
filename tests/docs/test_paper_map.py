"""The map from the paper to the code has every label of the paper's source, and says of each where it is or why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEX = ROOT.parent / "shared" / "paper" / "paper.tex"
LABELS = Path(__file__).with_name("paper_labels.txt")
MAP = (ROOT / "docs" / "paper_map.md").read_text()
NOT_NEEDED = "not needed: "


def rows() -> dict[str, list[str]]:
    """The cells that follow each label."""
    lines = [line.strip("|").split("|") for line in MAP.splitlines() if line.startswith("| [")]
    return {cells[0].strip().strip("[]"): [cell.strip() for cell in cells[1:]] for cells in lines}


def labels_of(tex: str) -> list[str]:
    return re.findall(r"\\label\{([^}]*)\}", tex)


def test_the_list_of_labels_is_that_of_the_papers_source() -> None:
    if not TEX.is_file():
        pytest.skip("the paper's source is not beside this checkout, in ../shared/paper")
    assert LABELS.read_text().split() == labels_of(TEX.read_text())


def test_every_label_of_the_paper_has_one_row_and_every_row_a_label() -> None:
    known = LABELS.read_text().split()
    assert len(known) > 100 and sorted(rows()) == sorted(known)
    assert len(re.findall(r"^\| \[", MAP, re.M)) == len(known), "a label has two rows"


def test_every_row_names_a_file_or_a_row_that_does_or_a_reason() -> None:
    for label, (printed, content, *others) in rows().items():
        assert printed, label
        if content.startswith(NOT_NEEDED):
            assert len(content) > len(NOT_NEEDED) + 20 and not any(others), label
            continue
        elsewhere = [other for other in re.findall(r"\[([^\]]+)\](?!\()", content) if other in rows()]
        named = re.findall(r"`((?:crescendo|dp/crescendo_dp|lab)/[\w/]+\.py)`", content)
        pages = re.findall(r"\]\((\w+\.md)\)", content)
        assert named or elsewhere or pages, f"{label} names no file, no other row and no reason"
        if named and others:
            assert re.search(r"`(?:dp/)?tests/[\w/]+\.py`", " ".join([content, *others])), f"{label} names no test"


def test_labels_that_the_code_quotes_are_in_the_map_with_that_code() -> None:
    found = rows()
    quoted = {
        (label, path.relative_to(ROOT).as_posix())
        for folder in ("crescendo", "dp/crescendo_dp", "lab")
        for path in (ROOT / folder).rglob("*.py")
        for label in re.findall(r"Paper \[([^\]\s]+)\]", path.read_text())
    }
    assert quoted
    for label, path in sorted(quoted):
        assert label in found, f"{path} quotes {label}, which is no label of the paper"
        assert not found[label][1].startswith(NOT_NEEDED), f"{path} quotes {label}, which is said not to be needed"


def test_what_is_not_built_is_listed_as_a_departure() -> None:
    departures = (ROOT / "docs" / "departures.md").read_text()
    labels = set(re.findall(r"\[([\w:+-]+)\](?!\()", departures))
    assert "HogWildAlgorithm" in labels and not labels - set(rows()), labels - set(rows())
    for label, cells in rows().items():
        if "departures.md" in " ".join(cells):
            assert f"[{label}]" in departures, f"the map calls {label} a departure, and departures.md does not have it"
