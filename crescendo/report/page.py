"""Writes a `Story` as HTML. Style and script lie beside this file; plotly's script is put into the page."""

from __future__ import annotations

import json
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from crescendo.report import figures
from crescendo.report.story import Spending, Story


def page(story: Story) -> str:
    """One file, no network."""
    drawn = {
        "curves": figures.curves(story),
        "figures": {
            "rounds": figures.rounds(story),
            "steps": figures.steps(story),
            "timeline": figures.timeline(story),
            "staleness": figures.staleness(story),
        },
    }
    if story.privacy is not None:
        drawn["figures"]["spending"] = figures.spending(story.privacy)
    left_out = f" The other {story.lanes_left_out:,} clients are left out." if story.lanes_left_out else ""
    sections = [
        _header(story),
        _cards(story),
        _panel(
            "What the model learned",
            "Measured at the server, each time a round was complete.",
            _switch() + _two("accuracy", "loss"),
        ),
        _panel(
            "Rounds that grow",
            "The gradients of each round, and the step size it begins with.",
            _two("rounds", "steps"),
        ),
        *([_privacy(story.privacy)] if story.privacy is not None else []),
        _panel(
            "Saved",
            "The same gradients in constant rounds of the size this run starts with: computed, not run.",
            _savings(story),
        ),
        _panel(
            "Who did what, when",
            f"Bars are work, in two shades that alternate by round; dotted lines are new global models.{left_out}",
            _figure("timeline"),
        ),
        _panel("How stale the models were", story.bound, _figure("staleness")),
        _panel("Certificate", "Checked before the run began; a schedule that fails is refused.", _certificate(story)),
        f"<details><summary>Run file</summary><pre>{escape(story.config)}</pre></details>",
    ]
    return _document(story.title, "\n".join(sections), drawn)


def _document(title: str, body: str, drawn: dict[str, Any]) -> str:
    data = json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{escape(title)} - Crescendo</title>
<style>{_asset("page.css")}</style></head>
<body><main>
{body}
</main>
<script>{_plotly()}</script>
<script type="application/json" id="data">{data}</script>
<script>{_asset("page.js")}</script>
</body></html>
"""


def _asset(name: str) -> str:
    return files("crescendo.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _header(story: Story) -> str:
    return (
        f'<header><p class="brand">Crescendo</p><h1>{escape(story.title)}</h1><p>{escape(story.subtitle)}</p></header>'
    )


def _cards(story: Story) -> str:
    cards = "".join(
        f'<div class="card"><span>{escape(label)}</span><b>{escape(value)}</b><small>{escape(means)}</small></div>'
        for label, value, means in story.headline
    )
    return f'<section class="cards">{cards}</section>'


def _panel(title: str, says: str, inside: str) -> str:
    return f'<section class="panel"><h2>{escape(title)}</h2><p class="says">{escape(says)}</p>{inside}</section>'


def _figure(name: str) -> str:
    return f'<div class="figure" id="{name}"></div>'


def _two(left: str, right: str) -> str:
    return f'<div class="two">{_figure(left)}{_figure(right)}</div>'


def _switch() -> str:
    buttons = "".join(
        f'<button data-x="{name}"{" class=on" if name == "gradients" else ""}>{word}</button>'
        for name, word in (("gradients", "gradients"), ("k", "rounds"), ("bytes", "bytes"), ("seconds", "virtual time"))
    )
    return f'<div class="switch" role="group" aria-label="against">against {buttons}</div>'


def _table(head: list[str], rows: list[list[str]], numbers: set[int]) -> str:
    def cells(tag: str, row: list[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if j in numbers else ''}>{escape(cell)}</{tag}>" for j, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _savings(story: Story) -> str:
    head = ["", "this run", f"constant rounds of {story.constant:,}", "saved"]
    return _table(head, [list(row) for row in story.savings], {1, 2, 3})


def _privacy(found: Spending) -> str:
    inside = [
        _figure("spending"),
        '<div class="two"><div>',
        _table(["client", "records declared", "epsilon", "by Renyi divergence"], found.clients, {1, 2, 3}),
        "</div><div>",
        _table(["same epsilon with", "rounds", "sigma", "noise over all rounds"], found.noise, {1, 2, 3}),
        "</div></div>",
        _table(["condition", "left", "right", ""], found.conditions, {1, 2}),
        *(f"<p>{escape(note)}</p>" for note in found.notes),
    ]
    return _panel("Privacy", found.says, "".join(inside))


def _certificate(story: Story) -> str:
    rows = [
        [name, place, left, relation, right, "holds" if holds else "does not hold"]
        for name, place, left, relation, right, holds in story.conditions
    ]
    table = _table(["condition", "tightest in round", "left", "", "right", ""], rows, {1, 2, 4}) if rows else ""
    return table + "".join(f"<p>{escape(note)}</p>" for note in story.notes)
