from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from crescendo.report import page
from crescendo.report.from_result import story_of
from crescendo.runs.simulate import simulate
from tests.config.small import small


class Tags(HTMLParser):
    """Every tag is closed by its own end, and nothing is fetched."""

    EMPTY = frozenset({"meta", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert "src" not in given and "href" not in given, f"<{tag}> fetches {given}"
        self.ids |= {given["id"] or ""} if "id" in given else set()
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(*overrides: str) -> str:
    return page(story_of(simulate(small(*overrides))))


def drawn(text: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    parsed: dict[str, dict[str, object]] = json.loads(found[1].replace("<\\/", "</"))
    return parsed


@pytest.mark.parametrize(
    "override",
    [
        "timing.preset=heterogeneous",
        "schedule.wait={tau = 50}",
        "data.test=0",
        "clients.count=60",
        "schedule.rounds=1",
        "timing.crash={every = 30, down = 10}",
    ],
)
def test_a_report_is_whole_html_that_fetches_nothing(override: str) -> None:
    text = report(override)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    figures = drawn(text)
    assert set(figures["figures"]) | {"accuracy", "loss"} <= tags.ids
    assert "plotly" in text.lower()


def test_the_curves_are_the_metrics() -> None:
    found = simulate(small())
    curves = drawn(page(story_of(found)))["curves"]
    assert curves["y"] == {name: [row[name] for row in found.metrics] for name in ("accuracy", "loss")}


def test_a_name_with_markup_is_written_as_text() -> None:
    story = story_of(simulate(small()))
    text = page(type(story)(**{**vars(story), "title": "<script>alert(1)</script>"}))
    assert "<script>alert(1)" not in text and "&lt;script&gt;alert(1)" in text


def test_no_point_lies_above_the_delay_that_the_rule_allows() -> None:
    for override in ("timing.preset=heterogeneous", "schedule.wait={tau = 50}"):
        rows = story_of(
            simulate(small(override, "schedule.rounds=8" if "preset" in override else "run.seed=1"))
        ).staleness
        assert len(rows) and (rows[:, 1] <= rows[:, 2]).all()
