"""Every number on a report, worked out again from the run's files: metrics.jsonl, privacy.json, trace.npz and config.toml."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from crescendo.privacy.guarantee import Guarantee
from crescendo.report import Story, page
from crescendo.report.numbers import times
from crescendo.runs.result import Result
from crescendo.runs.simulate import simulate
from crescendo.simulator.trace import Trace
from crescendo_dp.planning.budget_to_schedule import plan
from tests.config.small import small
from tests.report.test_report import drawn

PRIVATE = "privacy={mechanism = 'minibatch', sigma = 2.0, delta = 1e-5, clip = 1.0, records = [100, 120, 140]}"
OPTIONS = ("clients.count=3", "timing.preset=heterogeneous", "schedule.rounds=12", "data.test=0.2", "run.seed=3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, str]:
    folder = tmp_path_factory.mktemp("runs") / "night-7"
    result = simulate(small(*OPTIONS, PRIVATE, "evaluate.without_noise=true"), out=folder)
    return folder, result, (folder / "report.html").read_text(encoding="utf-8")


def cards(text: str) -> dict[str, str]:
    return dict(re.findall(r'<div class="card"><span>(.*?)</span><b>(.*?)</b>', text))


def cells(text: str, first: str) -> list[str]:
    """The row of a table that begins with ``first``."""
    row = re.search(rf"<td>{re.escape(first)}</td>(.*?)</tr>", text, re.S)
    assert row is not None, first
    return re.findall(r"<td[^>]*>(.*?)</td>", row[1])


@pytest.mark.slow
def test_the_cards_say_what_the_files_say(run: tuple[Path, Result, str]) -> None:
    folder, _, text = run
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    spent, trace, shown = (
        json.loads((folder / "privacy.json").read_text()),
        Trace.load(folder / "trace.npz"),
        cards(text),
    )
    assert shown["Accuracy"] == f"{rows[-1]['accuracy']:.4f}" and f"loss {rows[-1]['loss']:.4f}" in text
    assert shown["Epsilon"] == f"{max(client['epsilon'] for client in spent['clients']):.3f}"
    assert shown["Rounds"] == str(rows[-1]["k"]) == str(len(trace.tables["broadcasts"]["k"])) == "12"
    assert shown["Gradients"] == f"{sum(10 * (i + 1) for i in range(12)):,}"
    kilobytes = (rows[-1]["bytes_up"] + rows[-1]["bytes_down"]) / 1000
    assert shown["Traffic"] == f"{kilobytes:.1f} kB"
    assert shown["Virtual time"] == f"{trace.tables['updates']['applied_at'].max():,.0f} s"
    assert "<h1>night-7</h1>" in text and str(folder.parent) not in text


def waiting(trace: Trace, c: int | None = None) -> float:
    """The share of time, one row of the trace after the other."""
    time = dict.fromkeys(("segments", "waits", "absences"), 0.0)
    for name in time:
        table = trace.tables[name]
        for client, began, ended in zip(table["client"], table["began_at"], table["ended_at"], strict=True):
            time[name] += float(ended - began) if c is None or client == c else 0.0
    return time["waits"] / sum(time.values())


def test_the_bars_beside_the_timeline_are_the_shares_of_time_that_clients_waited(run: tuple[Path, Result, str]) -> None:
    folder, _, text = run
    trace = Trace.load(folder / "trace.npz")
    *_, bars = drawn(text)["figures"]["timeline"]["data"]
    expected = sorted(((waiting(trace, c), f"client {c}") for c in range(3)), reverse=True)
    assert bars["y"] == [name for _, name in expected] and bars["x"][0] > 0.2 > bars["x"][-1]
    assert bars["x"] == pytest.approx([share for share, _ in expected], abs=1e-4)
    assert cards(text)["Waiting"] == f"{waiting(trace):.0%}"


@pytest.mark.slow
def test_the_lines_to_compare_with_are_what_they_say(run: tuple[Path, Result, str]) -> None:
    from sklearn.linear_model import LogisticRegression

    folder, result, text = run
    levels = {
        one["id"]: {level["name"]: level["at"] for level in one["levels"]} for one in drawn(text)["curves"]["measures"]
    }
    train, test = result.prepared.dataset.train, result.prepared.dataset.test
    assert test is not None and result.noise_free is not None
    accuracy, loss = levels["accuracy"], levels["loss"]
    assert accuracy["commonest class"] == max(np.mean(test.y == label) for label in np.unique(test.y))
    twin = json.loads((folder / "privacy.json").read_text())["noise_free_accuracy"]
    assert accuracy["without noise"] == twin == result.noise_free["accuracy"]
    weights = result.prepared.row_weights()
    rows = np.full(len(train), 1 / len(train)) if weights is None else weights / weights.sum()
    x = np.hstack([np.asarray(train.x), np.ones((len(train), 1))])  # an intercept that L2 shrinks too
    fit = LogisticRegression(C=100.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(x, train.y, rows)
    margins = x @ fit.coef_[0] * np.where(train.y == fit.classes_[1], 1, -1)
    least = float(rows @ np.log1p(np.exp(-margins)) + 0.005 * np.sum(fit.coef_**2))
    assert least - 1e-9 <= loss["pooled"] <= least + 1e-4
    assert (
        "fitted until its loss is within" in text and "Only a simulation can have them: no epsilon covers them" in text
    )


def test_the_pooled_line_is_left_out_where_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo.report.references._MOST_WORK", {"sparse": 10.0, "dense": 10.0})
    text = page(Story.of(simulate(small())))
    assert "fitting so many would take longer than the report is worth" in text
    assert not any(level["name"] == "pooled" for one in drawn(text)["curves"]["measures"] for level in one["levels"])


def test_epsilon_lines_end_in_what_each_client_spends_and_rise_to_it(run: tuple[Path, Result, str]) -> None:
    folder, _, text = run
    spent = {client["name"]: client for client in json.loads((folder / "privacy.json").read_text())["clients"]}
    figure = drawn(text)["figures"]["spending"]
    lines = {line["name"].rpartition(" ")[0]: line for line in figure["data"] if line["mode"] == "lines"}
    assert set(lines) == set(spent) == {f"client {c}" for c in range(3)}
    for name, line in lines.items():
        assert line["y"][-1] == spent[name]["epsilon"] and line["y"] == sorted(line["y"])
        assert line["name"] == f"{name} {spent[name]['epsilon']:.3f}" and spent[name]["method"] == "pld"
        assert cells(text, name)[1:] == [f"{spent[name]['epsilon']:.4f}", f"{spent[name]['rdp_epsilon']:.4f}"]
    dots = [line["y"] for line in figure["data"] if line["mode"] == "markers"]
    assert sorted(dots) == sorted([one["epsilon"]] for one in spent.values())


def test_exchanges_are_counted_against_the_constant_rounds_of_a_plan(run: tuple[Path, Result, str]) -> None:
    """Rounds of two gradients over ten clients made "50 times fewer" of anything."""
    _, result, text = run
    made = result.prepared.privacy
    assert isinstance(made, Guarantee)
    planned = plan(made.epsilon, made.delta, made.certificate.records[made.costliest], 260, power=0.0, compare=False)
    size = -(-780 // planned.rounds)
    assert (result.constant.size, result.constant.rounds) == (size, planned.rounds)
    assert "as `crescendo plan` would choose them for the same epsilon. These were computed, not run" in text
    theirs, ours = drawn(text)["figures"]["exchanges"]["data"]
    done = np.cumsum([10 * (i + 1) for i in range(12)]).tolist()
    assert ours["x"] == done and ours["y"] == list(range(1, 13))
    assert theirs["x"] == [size, done[-1]] and theirs["y"] == [1, planned.rounds]
    assert cells(text, "rounds") == ["12", f"{planned.rounds}", times(planned.rounds, 12)]


def test_without_privacy_constant_rounds_are_as_large_as_the_first_and_have_a_gradient_for_each_client() -> None:
    few, many = (simulate(small(f"clients.count={clients}")) for clients in (2, 20))
    assert (few.constant.size, few.constant.rounds) == (10, 6) and "this run's first round" in few.constant.why
    assert (many.constant.size, many.constant.rounds) == (20, 3) and "one gradient for each client" in many.constant.why


def test_a_run_that_went_wrong_says_so_first_and_claims_no_savings() -> None:
    result = simulate(small("schedule.steps={kind='constant', eta=500.0}"))
    first, last = result.metrics[0]["loss"], result.metrics[-1]["loss"]
    assert last > first
    text = page(Story.of(result))
    assert f"above its initial {first:.4f}" in text or "diverged" in text
    assert text.index('class="alert" role') < text.index('class="cards"') and "times fewer" not in text
    _, loss = drawn(text)["curves"]["measures"]
    place, words = loss["remark"]
    assert place == len(result.metrics) - 1 and "above where it began" in words


def test_a_regression_is_drawn_by_its_own_measures(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 3))
    y = x @ [1.0, -2.0, 0.5] + 3.0 + rng.normal(size=150)
    path = tmp_path / "prices.csv"
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="a,b,c,price", comments="")
    result = simulate(
        small(f"data.source='{path}'", "data.label=price", "objective.kind=least-squares", "schedule.rounds=8")
    )
    text, test = page(Story.of(result)), result.prepared.dataset.test
    assert test is not None and result.accuracy is None
    r2, rmse, loss = drawn(text)["curves"]["measures"]
    assert [one["id"] for one in (r2, rmse, loss)] == ["r2", "rmse", "loss"]
    last = result.metrics[-1]
    assert cards(text)["R²"] == f"{last['r2']:.4f}" and rmse["last"]["at"] == last["rmse"]
    levels = {level["name"]: level["at"] for level in rmse["levels"]}
    assert levels["mean label"] == pytest.approx(np.sqrt(np.mean((test.y - test.y.mean()) ** 2)))
    assert levels["pooled"] < levels["mean label"] and 0.8 < levels["pooled"] < 1.2  # the noise has a deviation of 1


@pytest.mark.slow
def test_pages_of_long_runs_stay_small_and_keep_their_extremes() -> None:
    result = simulate(
        small(
            "schedule.sizes={kind='constant', size=2}",
            "schedule.rounds=3000",
            "schedule.steps={kind='constant', eta=0.5}",
        )
    )
    text = page(Story.of(result), "plotly.js")
    _, loss = drawn(text)["curves"]["measures"]
    values = [row["loss"] for row in result.metrics]
    assert len(text) < 200_000 and len(loss["y"]) < 1200 < len(values)
    assert (min(loss["y"]), max(loss["y"]), loss["y"][-1]) == (min(values), max(values), values[-1])
    assert "Of 3,001 measured models, only those that shape the curves are drawn." in text
