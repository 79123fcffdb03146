from __future__ import annotations

import csv
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from crescendo.report import Story, page
from crescendo.report.dates import made_now
from crescendo.runs.simulate import simulate
from tests.config.small import small


class Tags(HTMLParser):
    """Every tag is closed by its own end, and nothing is fetched but the script that was named."""

    EMPTY = frozenset({"meta", "br", "link", "img"})

    def __init__(self, script: str | None = None) -> None:
        super().__init__()
        self.script = script
        self.open: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert given.get("src") == (self.script if "src" in given else None), f"<{tag}> fetches {given}"
        assert "href" not in given, f"<{tag}> leads to {given}"
        self.ids |= {given["id"] or ""} if "id" in given else set()
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(*overrides: str) -> str:
    return page(Story.of(simulate(small(*overrides))))


def drawn(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    parsed: dict[str, Any] = json.loads(found[1].replace("<\\/", "</"))
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
    assert set(figures["figures"]) | {one["id"] for one in figures["curves"]["measures"]} <= tags.ids
    assert "plotly" in text.lower()


def test_reports_of_one_folder_of_runs_share_the_plotting_script(tmp_path: Path) -> None:
    for name in ("first-1", "second-2"):
        simulate(small(), out=tmp_path / name)
    script = tmp_path / f"plotly-{get_plotlyjs_version()}.min.js"
    assert {path.name for path in tmp_path.iterdir()} == {"first-1", "second-2", script.name}
    assert script.read_text(encoding="utf-8") == get_plotlyjs()
    text = (tmp_path / "first-1" / "report.html").read_text(encoding="utf-8")
    tags = Tags(f"../{script.name}")
    tags.feed(text)
    assert tags.open == [] and f'<script src="../{script.name}">' in text
    assert len(text) < 100_000
    other = (tmp_path / "second-2" / "report.html").read_text(encoding="utf-8")
    assert text.replace("first-1", "second-2") == other


def test_a_script_beside_the_run_that_is_not_plotly_s_is_not_used(tmp_path: Path) -> None:
    simulate(small(), out=tmp_path / "first")
    (script,) = tmp_path.glob("plotly-*.min.js")
    script.write_text("alert('hello')", encoding="utf-8")
    simulate(small(), out=tmp_path / "second")
    text = (tmp_path / "second" / "report.html").read_text(encoding="utf-8")
    assert script.name not in text and get_plotlyjs() in text
    assert script.read_text(encoding="utf-8") == "alert('hello')", "it is another's"


def test_a_standalone_report_carries_the_script_itself(tmp_path: Path) -> None:
    result = simulate(small(), out=tmp_path / "run", standalone=True)
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    Tags().feed(text)
    assert get_plotlyjs() in text and text == page(Story.of(result), made_at=made_now())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_curves_are_the_metrics() -> None:
    found = simulate(small())
    curves = drawn(page(Story.of(found)))["curves"]
    for one, name in zip(curves["measures"], ("accuracy", "loss"), strict=True):
        assert one["id"] == name and one["y"] == [row[name] for row in found.metrics]


def test_a_name_with_markup_is_written_as_text() -> None:
    story = Story.of(simulate(small()))
    bad = "<script>alert(1)</script>"
    changes: dict[str, Any] = {
        "title": bad,
        "config": bad,
        "notes": [bad],
        "savings": [(bad,) * 4],
        "headline": [(bad,) * 3],
    }
    text = page(
        type(story)(
            **{
                **vars(story),
                **changes,
                "alerts": [bad],
                "verdict": bad,
                "reference_notes": [bad],
                "conditions": [[bad] * 4],
            }
        )
    )
    assert "<script>alert(1)" not in text and text.count("&lt;script&gt;alert(1)") == 18


MARKUP = ("</script><script>alert(1)</script>", "<b>bold</b> &amp;", "@accent", "%{y}")


def test_names_in_a_csv_are_shown_letter_by_letter(tmp_path: Path) -> None:
    """The file, its columns and their values: in the page as text, in figures as plotly writes text, and never as markup."""
    rng = np.random.default_rng(0)
    path = tmp_path / "<img src=x onerror=alert(1)>.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["<i>a</i>", "</script>", "<u>who</u>", "<s>late</s>"])
        for i in range(80):
            rows.writerow([rng.random(), rng.random(), MARKUP[i % 4], ("<em>yes</em>", "&no")[i % 5 % 2]])
    changes = (f"data.source='{path}'", "clients.split='column:<u>who</u>'", "clients.count=")
    private = "{mechanism = 'minibatch', sigma = 2.0, delta = 1e-5, clip = 1.0, records = 20}"
    told = (f"privacy={private}", "data.classes=['<em>yes</em>', '&no']")
    for text in (report(*changes), report(*changes, *told)):
        tags = Tags()
        tags.feed(text)
        assert tags.open == [] and text.count("<script") == 3
        shown = text.partition("</main>")[0]
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown and "split by &lt;u&gt;who&lt;/u&gt;" in shown
        assert not any(tag in shown for tag in ("<img", "<i>", "<u>", "<b>bold", "<em>", "<s>"))
    figures: Any = drawn(text)["figures"]
    lanes = figures["timeline"]["layout"]["yaxis"]["categoryarray"]
    assert sorted(map(html.unescape, lanes)) == sorted(MARKUP) and not any("<" in name for name in lanes)
    assert {lane for bar in figures["timeline"]["data"] for lane in bar["y"]} == set(lanes)
    labels = [line["name"] for line in figures["spending"]["data"]] + [
        one["text"] for one in figures["spending"]["ends"]
    ]
    assert not any("<" in name for name in labels) and all(any(name in one for one in labels) for name in lanes)
    hovers = {line["hovertemplate"] for line in figures["spending"]["data"]}
    assert not any(
        name in hover.removesuffix("<extra></extra>") for hover in hovers for name in lanes if name != "%{y}"
    )


def test_no_point_lies_above_the_delay_that_the_rule_allows() -> None:
    for override in ("timing.preset=heterogeneous", "schedule.wait={tau = 50}"):
        rows = Story.of(
            simulate(small(override, "schedule.rounds=8" if "preset" in override else "run.seed=1"))
        ).staleness
        assert len(rows) and (rows[:, 1] <= rows[:, 2]).all()
