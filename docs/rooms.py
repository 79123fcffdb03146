"""Draws docs/rooms.svg, the picture of the package's rooms and of `crescendo_dp`, from what the modules import.

    python docs/rooms.py

A room stands above all rooms that it imports; the box names those that do not follow from others.
"""

from __future__ import annotations

import ast
import html
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TOOLKIT = ROOT / "crescendo", ROOT / "dp" / "crescendo_dp"
LEFT_OUT = {"errors", "logs", "system", "tables", "views", "whole_files"}  # small rooms that everybody may import
WIDTH, HEIGHT, GAP, MARGIN, LETTERS = 300, 108, 16, 20, 44


def rooms() -> dict[str, str]:
    """Each room with the first sentence about it."""
    found = {}
    for path in [*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("*.py"), TOOLKIT / "__init__.py"]:
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if name in LEFT_OUT or (path.parent == PACKAGE and path.stem.startswith("__")):
            continue
        says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[name] = " ".join(says.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return {name: says.replace("`", "") for name, says in sorted(found.items())}


def imports(names: set[str]) -> dict[str, set[str]]:
    """Which rooms each room imports, lazily or not."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in names or path.stem.endswith("_pb2"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            wanted = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [module or ""]
            for one in wanted:
                to = (
                    TOOLKIT.name
                    if one.startswith(f"{TOOLKIT.name}.")
                    else one.partition("crescendo.")[2].partition(".")[0]
                )
                if to in names:
                    found[parts[0]].add(to)
    return {name: uses - {name} for name, uses in found.items()}


def levels(uses: dict[str, set[str]]) -> dict[str, int]:
    """How many rooms stand below each, one under the other."""
    found: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((level(below) for below in uses[name]), default=-1)
        return found[name]

    for name in uses:
        level(name)
    return found


def direct(uses: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""

    def reached(name: str) -> set[str]:
        return {name}.union(*(reached(below) for below in uses[name]))

    return {
        (name, below)
        for name in uses
        for below in uses[name]
        if not any(below in reached(other) for other in uses[name] - {below})
    }


def drawn() -> str:
    """The picture as SVG."""
    words = rooms()
    uses = imports(set(words))
    at, arrows = levels(uses), direct(uses)
    rows = [[name for name in words if at[name] == level] for level in range(max(at.values()), -1, -1)]
    width = max(len(row) for row in rows) * (WIDTH + GAP) - GAP + 2 * MARGIN
    height = len(rows) * (HEIGHT + GAP) - GAP + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="DejaVu Sans, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for k, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP) + GAP) / 2
        for j, name in enumerate(row):
            below = sorted(lower for upper, lower in arrows if upper == name)
            lines += _box(left + j * (WIDTH + GAP), MARGIN + k * (HEIGHT + GAP), name, words[name], below)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box(x: float, y: float, name: str, says: str, below: list[str]) -> list[str]:
    found = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#eef3fa" stroke="#35598f"/>',
        _text(x, y + 24, 16, "#1d3557", name, bold=True),
    ]
    wrapped = textwrap.wrap(says, LETTERS, max_lines=3, placeholder=" ...")
    found += [_text(x, y + 43 + 15 * k, 11.5, "#333333", line) for k, line in enumerate(wrapped)]
    if below:
        found.append(_text(x, y + HEIGHT - 10, 11, "#35598f", "uses " + ", ".join(below)))
    return found


def _text(x: float, y: float, size: float, colour: str, words: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x + 12:.0f}" y="{y:.0f}" font-size="{size}"{weight} fill="{colour}">{html.escape(words)}</text>'


if __name__ == "__main__":
    (ROOT / "docs" / "rooms.svg").write_text(drawn(), encoding="utf-8")
