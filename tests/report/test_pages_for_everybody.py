"""Pages that everybody can read: contrast, headings in order, words for every figure, a date, and no records."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from crescendo import __version__
from crescendo.data.from_arrays import dataset
from crescendo.report import Story, page
from crescendo.report.dates import EPOCH, made_now
from crescendo.runs.simulate import simulate
from tests.config.small import small
from tests.report.test_report import drawn

TEXTS = ("ink", "muted", "accent", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def brightness(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_and_lines_stand_out_from_the_card_as_wcag_asks(name: str, scheme: int) -> None:
    style = files("crescendo.report").joinpath("page.css").read_text(encoding="utf-8")
    pairs = {found[0]: found[1:] for found in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", style)}
    for behind in ("card", "bg"):
        low, high = sorted(brightness(pairs[one][scheme]) for one in (name, behind))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_every_figure_has_words_and_every_table_a_head_and_headings_go_down_one_by_one() -> None:
    text = page(Story.of(simulate(small("timing.preset=heterogeneous"))), "plotly.js")
    words = dict(re.findall(r'<div id="(\w+)" role="img" aria-label="(.*?)"></div>', text))
    data = drawn(text)
    assert set(words) == set(data["figures"]) | {one["id"] for one in data["curves"]["measures"]}
    assert all(len(said) > 20 for said in words.values())
    levels = [int(level) for level in re.findall(r"<h(\d)", text)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    heads = re.findall(r"<thead>(.*?)</thead>", text, re.S)
    assert len(heads) == text.count("<table") and not any("></th>" in head for head in heads)
    assert text.count("data-save=") == 2 * len(words)


def test_a_page_has_the_version_and_the_date_that_its_caller_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story.of(simulate(small()))
    assert f"{__version__} · 8 November 2026, 09:05 UTC" in page(story, "p.js", datetime(2026, 11, 8, 9, 5, tzinfo=UTC))
    assert page(story, "p.js") == page(Story.of(simulate(small())), "p.js") and "UTC" not in page(story, "p.js")
    monkeypatch.setenv(EPOCH, "86400")
    assert made_now() == datetime(1970, 1, 2, tzinfo=UTC)
    for nonsense in ("", "soon", "-1", "9" * 40, "²"):
        monkeypatch.setenv(EPOCH, nonsense)
        assert made_now().year >= 2026


def test_only_the_report_of_a_run_has_a_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, date in (("one", "0"), ("two", "100000000")):
        monkeypatch.setenv(EPOCH, date)
        simulate(small(), out=tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        same = path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        assert same == (path.name != "report.html"), path.name


def test_no_record_is_in_a_page() -> None:
    """Features and labels that nothing else could write: none of their digits are there."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    text = page(Story.of(simulate(small(), data=dataset(x, y))), "plotly.js")
    assert not any(f"{value:.6f}"[:-1].lstrip("-") in text for value in x.ravel())


def test_a_page_names_files_without_the_folders_they_lie_in(tmp_path: Path) -> None:
    path = tmp_path / "ours" / "flats.csv"
    path.parent.mkdir()
    path.write_text("a,b,label\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(80)), encoding="utf-8")
    text = page(Story.of(simulate(small(f"data.source='{path}'"))), "plotly.js")
    assert "flats.csv: " in text and str(path.parent) not in text


def test_cells_of_wide_tables_know_their_heads_so_that_a_phone_can_show_them_below_each_other() -> None:
    text = page(Story.of(simulate(small("timing.preset=heterogeneous"))), "plotly.js")
    table = re.search(r'<table class="labelled">(.*?)</table>', text, re.S)
    assert table is not None
    heads = re.findall(r"<th[^>]*>(.*?)</th>", table[1])
    for row in re.findall(r"<tr><td.*?</tr>", table[1]):
        assert re.findall(r'data-head="(.*?)"', row) == heads[1:]


def test_axes_of_a_single_round_have_whole_ticks_and_a_limit_that_is_seen() -> None:
    figures = drawn(page(Story.of(simulate(small("schedule.rounds=1", "clients.count=1"))), "plotly.js"))["figures"]
    assert figures["steps"]["layout"]["xaxis"]["dtick"] == 1
    assert figures["staleness"]["layout"]["xaxis"]["range"][0] == 0
    limit = figures["staleness"]["data"][0]
    assert limit["mode"] == "markers" or len(limit["x"]) > 1


def test_an_axis_shows_what_is_drawn_alone() -> None:
    """Rounds that do not grow are compared with nothing: their axis ends where they do."""
    story = Story.of(simulate(small("schedule.sizes={kind = 'constant', size = 10}")))
    layout = drawn(page(story, "plotly.js"))["figures"]["exchanges"]["layout"]
    assert not story.savings and layout["yaxis"]["range"][1] < np.log10(len(story.sizes)) + 0.2
