"""Comparisons: everybody has the same records, seeds and trials, and the test part chooses nothing."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crescendo.algorithms.algorithm_kinds import ALGORITHMS
from crescendo.cli.main import app
from crescendo.config.schema import Config
from crescendo.data import Dataset
from crescendo.errors import ConfigError, UsageError
from crescendo.report.study_page import comparison_page
from crescendo.runs.prepare import load_data
from crescendo.runs.simulate import simulate
from crescendo.studies import comparing
from crescendo.studies.comparing import Comparison, compare
from crescendo.studies.comparison_files import csv_of, story_of_comparison
from crescendo.studies.points import StudyPoint
from crescendo.studies.study_events import PointBegan, PointEnded, StudyEvent
from crescendo.studies.sweep_files import story_of
from crescendo.studies.sweeping import sweep
from crescendo.studies.tuning import STEP, tried_options, validation_cut
from tests.config.small import SMALL, TOML, small
from tests.report.test_report import Tags, drawn

PRIVATE = "privacy={mechanism = 'minibatch', epsilon = 4.0, delta = 1e-5, clip = 1.0, records = 80}"


class Points:
    """Every point that was run, in order; may stop the comparison as Ctrl-C does."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.all: list[StudyPoint] = []
        self.kept = 0
        self._stop_at = stop_at

    def __call__(self, event: StudyEvent) -> None:
        if isinstance(event, PointBegan):
            if len(self.all) == self._stop_at:
                raise KeyboardInterrupt
            self.all.append(event.point)
        if isinstance(event, PointEnded):
            self.kept += event.kept


def test_a_comparison_is_the_runs_that_it_says() -> None:
    heard = Points()
    found = compare(SMALL, ["fedavg"], seeds=2, tune=2, tell=heard)
    assert [one.name for one in found.contestants] == ["crescendo", "fedavg"] and found.seeds == (0, 1)
    data = load_data(small())
    for one in found.contestants:
        for seed, outcome in zip(found.seeds, one.outcomes, strict=True):
            alone = simulate(small(f"run.seed={seed}"), data=data, algorithm=one.name, options=dict(one.options))
            assert (outcome.accuracy, outcome.loss) == (alone.accuracy, alone.loss)
    assert len(heard.all) == 2 * 2 + 2 * 2


def test_everybody_has_the_same_records_seeds_and_number_of_trials() -> None:
    heard = Points()
    found = compare(SMALL, ["fedavg", "fedbuff"], seeds=2, tune=3, tell=heard)
    trials = [point for point in heard.all if "trial" in point.label]
    runs = [point for point in heard.all if "trial" not in point.label]
    by_name = {one.name: [point for point in trials if point.algorithm == one.name] for one in found.contestants}
    factors = [[point.options[STEP] for point in points] for points in by_name.values()]
    assert factors[0] == factors[1] == factors[2] and len(set(factors[0])) == 3
    assert {point.config.run.seed for point in trials}.isdisjoint(found.seeds)
    for seed in found.seeds:
        configs = [point.config for point in runs if point.config.run.seed == seed]
        assert len(configs) == 3 and all(config == configs[0] for config in configs)
    assert len({id(point.data) for point in runs}) == 1, "one test part for all seeds"
    assert {one.mean("gradients").mean for one in found.contestants if one.mean("gradients")} == {60.0}  # type: ignore[union-attr]


# -- the test part chooses nothing -----------------------------------------------------------------------------------------


def test_the_tuner_refuses_records_with_a_test_part_and_cuts_all_others() -> None:
    data = load_data(small())
    with pytest.raises(UsageError, match="leave the test part out"):
        validation_cut(data, 0)
    cut = validation_cut(replace(data, test=None), 0)
    assert cut.test is not None and data.test is not None and len(cut.test) == 40
    rows = {tuple(row) for row in np.asarray(data.train.x)}
    parts = [{tuple(row) for row in np.asarray(part.x)} for part in (cut.train, cut.test)]
    assert parts[0] | parts[1] == rows and not parts[0] & parts[1]
    assert not rows & {tuple(row) for row in np.asarray(data.test.x)}


def test_other_test_records_change_no_choice_and_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(config: Config) -> Dataset:
        data = load_data(config)
        assert data.test is not None
        return replace(data, test=replace(data.test, y=1 - data.test.y))

    def trials(found: Comparison) -> list[Any]:
        return [
            (dict(one.options), [(trial.options, trial.outcome.accuracy) for trial in one.tuned.trials])
            for one in found.contestants
            if one.tuned is not None
        ]

    clean = compare(SMALL, ["fedavg"], seeds=1, tune=3)
    monkeypatch.setattr(comparing, "load_data", poisoned)
    other = compare(SMALL, ["fedavg"], seeds=1, tune=3)
    assert trials(clean) == trials(other)
    accuracies = [
        (a.outcomes[0].accuracy, b.outcomes[0].accuracy)
        for a, b in zip(clean.contestants, other.contestants, strict=True)
    ]
    assert all(a is not None and b is not None and a + b == pytest.approx(1) for a, b in accuracies)


def test_what_is_chosen_is_best_on_the_validation_part() -> None:
    found = compare(SMALL, ["fedavg"], seeds=1, tune=4)
    for one in found.contestants:
        assert one.tuned is not None and one.tuned.best is not None
        ended = [trial.outcome.accuracy or 0.0 for trial in one.tuned.trials if trial.outcome.status == "done"]
        assert one.tuned.best.outcome.accuracy == max(ended) and one.options == one.tuned.best.options


def test_a_best_step_size_at_an_end_is_doubted_and_few_trials_twice() -> None:
    for trials, few in ((2, True), (8, False)):
        for one in compare(SMALL, ["fedavg"], seeds=1, tune=trials).contestants:
            assert one.tuned is not None
            ends = replace(one.tuned, best=one.tuned.trials[0]), replace(one.tuned, best=one.tuned.trials[-1])
            assert [end.at_edge for end in ends] == ["smallest", "largest"]
            assert all(end.doubt("x").endswith("trials are few") == few for end in ends)


def test_trials_lie_in_parts_of_their_own_and_fixed_options_stay() -> None:
    tried = tried_options(ALGORITHMS["fedavg"], 8, 3, {"rate": 0.5})
    low, high = ALGORITHMS["fedavg"].tunable[STEP].low, ALGORITHMS["fedavg"].tunable[STEP].high
    parts = [np.log(one[STEP] / low) / np.log(high / low) * 8 for one in tried]
    assert [int(part) for part in parts] == list(range(8)) and {one["rate"] for one in tried} == {0.5}


@pytest.mark.parametrize("count", [1, 2, 3, 8, 24])
def test_one_trial_is_the_run_file_with_the_defaults_and_all_rise_by_step_size(count: int) -> None:
    for algorithm in ALGORITHMS.values():
        tried = tried_options(algorithm, count, 5, {})
        untuned = {name: getattr(algorithm.made(), name) for name in algorithm.tunable}
        assert tried.count(untuned) == 1 and untuned[STEP] == 1.0
        factors = [one[STEP] for one in tried]
        assert factors == sorted(factors) and len(set(factors)) == count
    fixed = tried_options(ALGORITHMS["fedprox"], count, 5, {"mu": 0.7})
    assert {one["mu"] for one in fixed} == {0.7} and {STEP: 1.0, "mu": 0.7} in fixed


def test_an_algorithm_whose_trials_all_diverge_is_run_with_its_defaults() -> None:
    found = compare(SMALL, ["fedavg"], seeds=1, tune=2, overrides=["schedule.steps.eta0=1e200"])
    assert all(one.tuned is not None and one.tuned.best is None and not one.options for one in found.contestants)
    assert found.ours.count("diverged") == 1 and found.ours.mean("accuracy") is None
    text = comparison_page(story_of_comparison(found), "plotly.js")
    assert "No trial of fedavg ended well" in text and "not compared" in text
    Tags("plotly.js").feed(text)


def test_a_split_by_column_leaves_every_client_its_records() -> None:
    data = replace(load_data(small()), test=None)
    owners = np.array(["big"] * (len(data.train) - 3) + ["tiny"] * 3)
    cut = validation_cut(replace(data, columns={"who": owners}), 0, "column:who")
    assert np.count_nonzero(cut.columns["who"] == "tiny") == 3 and len(cut.train) == len(cut.columns["who"])
    few = replace(data, train=data.train.take(np.arange(3)))
    with pytest.raises(UsageError, match="too few training records to cut a validation part from"):
        validation_cut(few, 0)


def test_points_are_numbered_through_and_a_run_that_cannot_start_ends_it_at_once() -> None:
    numbers: list[tuple[int, int]] = []

    def tell(event: StudyEvent) -> None:
        if isinstance(event, PointBegan):
            numbers.append((event.number, event.total))

    compare(SMALL, ["fedavg"], seeds=2, tune=2, tell=tell)
    assert numbers == [(number, 8) for number in range(1, 9)]
    numbers.clear()
    with pytest.raises(UsageError, match="999 is more than"):
        compare(SMALL, ["fedavg"], seeds=2, overrides=["clients.count=999"], tell=tell)
    assert numbers == [(1, 4)]


def test_options_that_are_given_are_not_searched_and_the_page_says_so() -> None:
    found = compare(SMALL, ["fedavg"], seeds=1, tune=2, options={"fedavg": {"rate": 0.5}})
    rival = found.rivals[0]
    assert rival.options["rate"] == 0.5 and rival.tuned is not None
    story = story_of_comparison(found)
    assert "Options of fedavg that were fixed and not searched: rate = 0.5." in story.tuning_notes
    assert story.tuning is not None and [row[3] for row in story.tuning.rows] == ["step_scale", "step_scale"]


# -- going on, and the files -----------------------------------------------------------------------------------------------


def test_a_comparison_that_was_stopped_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"seeds": 2, "tune": 2}
    compare(SMALL, ["fedavg"], **asked, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        compare(SMALL, ["fedavg"], **asked, out=tmp_path / "cut", tell=Points(stop_at=5))
    heard = Points()
    compare(SMALL, ["fedavg"], **asked, out=tmp_path / "cut", tell=heard)
    assert (len(heard.all), heard.kept) == (8, 5)
    for name in ("comparison.csv", "comparison.html"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    more = Points()
    compare(SMALL, ["fedavg", "fedbuff"], seeds=3, tune=2, out=tmp_path / "cut", tell=more)
    assert more.kept == 8, "more seeds and rivals run only what is new"
    with pytest.raises(ConfigError, match="holds a comparison, not a sweep"):
        from crescendo.studies.sweeping import sweep

        sweep(SMALL, ["run.seed=0"], out=tmp_path / "cut")


def test_a_comparison_that_cannot_start_leaves_no_folder_and_one_that_was_killed_early_can_go_on(
    tmp_path: Path,
) -> None:
    for wrong in ("clients.count=999", "data.source=nowhere.csv"):
        with pytest.raises(UsageError):
            compare(SMALL, ["fedavg"], seeds=1, overrides=[wrong], out=tmp_path / "study")
        assert not (tmp_path / "study").exists()
    (tmp_path / "study" / "points").mkdir(parents=True)
    compare(SMALL, ["fedavg"], seeds=1, out=tmp_path / "study")
    with pytest.raises(UsageError):
        compare(SMALL, ["fedavg"], seeds=1, overrides=["clients.count=999"], out=tmp_path / "study")
    assert len(list((tmp_path / "study" / "points").iterdir())) >= 2, "what was there stays"


def test_the_csv_has_a_row_for_every_run_and_every_trial() -> None:
    found = compare(SMALL, ["fedbuff"], seeds=2, tune=2, target=0.6)
    rows = list(csv.DictReader(csv_of(found).splitlines()))
    assert [(row["algorithm"], row["part"]) for row in rows] == [
        (name, part) for name in ("crescendo", "fedbuff") for part in ("test", "test", "validation", "validation")
    ]
    assert json.loads(rows[0]["options"]) == dict(found.ours.options)
    reached = found.ours.outcomes[0].reached(0.6, "seconds")
    assert rows[0]["seconds_to_target"] == ("" if reached is None else repr(reached))


def test_the_page_is_whole_and_shows_names_letter_by_letter(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=alert(1)>.csv"
    path.write_text("\n".join(["x,z,late", *(f"{i / 40},{i % 7},{i // 2 % 2}" for i in range(60))]))
    found = compare(SMALL, ["fedavg"], seeds=2, tune=2, overrides=[f"data.source='{path}'"])
    text = comparison_page(story_of_comparison(found), "plotly.js")
    tags = Tags("plotly.js")
    tags.feed(text)
    assert tags.open == [] and {"curves", "trials"} <= tags.ids
    assert "<img" not in text.partition("</main>")[0] and "never sees the test part" in text
    assert str(tmp_path) not in text.partition("</main>")[0]
    curves: Any = drawn(text)["curves"]
    assert set(curves) == {"seconds", "gradients", "bytes"}
    names = [line["name"].rpartition(" ")[0] for line in curves["seconds"]["data"] if "name" in line]
    assert names == ["crescendo", "fedavg", "commonest class"]


def test_the_usual_target_lies_between_the_commonest_class_and_the_best() -> None:
    found = compare(SMALL, ["fedavg"], seeds=2)
    test = load_data(small()).test
    assert test is not None and found.target is not None and found.tested == len(test)
    commonest = max(np.mean(test.y == 1), np.mean(test.y == 0))
    best = max(mean.mean for one in found.contestants if (mean := one.mean("accuracy")) is not None)
    assert found.target == pytest.approx(commonest + 0.95 * (best - commonest), abs=1e-4)
    hopeless = compare(SMALL, ["fedavg"], seeds=1, overrides=["schedule.steps.eta0=1e200"])
    assert hopeless.target is None and hopeless.verdicts()[0].seconds.says == "there is no target"
    assert "no algorithm beats always answering" in comparison_page(story_of_comparison(hopeless), "plotly.js")


def test_one_seed_has_no_interval_and_tells_nothing() -> None:
    found = compare(SMALL, ["fedavg"], seeds=1)
    told = found.verdicts()[0]
    assert told.score.better is None and "in one seed" in told.score.says
    text = comparison_page(story_of_comparison(found), "plotly.js")
    assert "One seed gives no interval" in text and "Tuning: none." in text
    assert not any("fill" in line for line in drawn(text)["curves"]["seconds"]["data"])


# -- privacy ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_equal_epsilon_is_each_algorithms_own_noise_and_equal_noise_its_own_epsilon() -> None:
    same = compare(SMALL, ["fedavg"], seeds=1, tune=2, overrides=[PRIVATE])
    assert same.equal == "epsilon"
    for one in same.contestants:
        assert one.epsilon is not None and 3.9 < one.epsilon <= 4.0
    assert same.contestants[0].sigma != same.contestants[1].sigma
    text = comparison_page(story_of_comparison(same), "plotly.js")
    assert "no epsilon here covers that" in text and "at a delta of 2e-05" in text
    noise = compare(SMALL, ["fedavg"], seeds=1, equal="noise", overrides=[PRIVATE])
    assert noise.contestants[0].sigma == noise.contestants[1].sigma == same.contestants[0].sigma
    assert noise.contestants[0].epsilon != noise.contestants[1].epsilon


def test_an_algorithm_without_a_certificate_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no certificate covers the messages of fedbuff's clients"):
        compare(SMALL, ["fedbuff"], overrides=[PRIVATE], out=tmp_path / "study")
    assert not (tmp_path / "study").exists()


# -- mistakes --------------------------------------------------------------------------------------------------------------

WRONG = [
    (["--with", ""], "a comparison needs a rival; name one or more with --with, of fedavg"),
    (["--with", "fedagv"], 'there is no algorithm "fedagv"; did you mean "fedavg"?'),
    (["--with", "fedavg", "--with", "fedagv"], 'there is no algorithm "fedagv"; did you mean "fedavg"?'),
    (["--with", "fedagv", "--with", "fedavg"], 'there is no algorithm "fedagv"; did you mean "fedavg"?'),
    (["--with", "fedavg", "--with", "fedprox,fedavg"], "--with has fedavg twice; name each rival once"),
    (["--with", "fedavg,fedavg"], "--with has fedavg twice; name each rival once"),
    (["--with", "crescendo"], "crescendo is always compared; name rivals only, of fedavg"),
    (["--with", "fedavg", "--seeds", "0"], "--seeds must be a whole number from 1 to 1000, not 0"),
    (["--with", "fedavg", "--tune", "-1"], "--tune must be a whole number from 0 to 1000, not -1"),
    (["--with", "fedavg", "--target", "1.5"], "--target must be an accuracy above 0 and up to 1, not 1.5"),
    (["--with", "fedavg", "--target", "nan"], "--target must be an accuracy above 0 and up to 1, not nan"),
    (["--with", "fedavg", "--equal", "noise"], "--equal noise is for a private run; leave --equal out"),
    (["--with", "fedavg", "--equal", "eps"], '--equal must be "epsilon" or "noise", not "eps"'),
    (["--with", "fedavg", "--option", "fedavg.rate"], "--option fedavg.rate is not of the form name.key=value"),
    (["--with", "fedavg", "--option", "fedavg.rat=1"], 'fedavg has no option "rat"; did you mean "rate"?'),
    (["--with", "fedavg", "--option", "fedbuff.rate=1"], "--option fedbuff.KEY is for fedbuff, which is not compared"),
    (["--with", "fedavg", "--set", "data.test=0"], "synthetic has no test part to compare on; set data.test above 0"),
    (["--with", "fedavg", "--set", "clients.cuont=3"], "there is no key clients.cuont; did you mean clients.count?"),
    (["--with", "fedavg", "--set", "clients.count=999"], "clients.count = 999 is more than the 200 training records"),
    (["--with", "fedavg", "--set", "run.seed=9223372036854775807"], "run.seed = 9223372036854775807 leaves no room for 2 seeds"),
    (["--with", "fedavg", "--out", "notes"], "notes already exists and holds no comparison"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), WRONG, ids=[" ".join(options) for options, _ in WRONG])
def test_a_mistake_is_answered_with_its_sentence(
    options: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    Path("notes").mkdir()
    Path("notes/mine.txt").write_text("keep")
    found = CliRunner().invoke(app, ["compare", "small.toml", *options])
    assert found.exit_code == 1 and found.stderr.startswith(f"crescendo: {sentence}"), found.output
    assert found.stderr.count("\n") == 1


def test_the_command_prints_a_table_and_one_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    asked = ["compare", "small.toml", "--with", "fedavg, fedbuff", "--seeds", "2"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    for words in ("against fedavg: accuracy", "no algorithm was tuned", "Page: runs/small-compare/comparison.html"):
        assert words in found.stdout.lower() or words in found.stdout
    told = CliRunner().invoke(app, [*asked, "--json"])
    parsed = json.loads(told.stdout)
    assert told.stdout.count("\n") == 1 and told.stderr == ""
    assert list(parsed["algorithms"]) == ["crescendo", "fedavg", "fedbuff"] and parsed["equal"] == "gradients"
    assert [one["rival"] for one in parsed["verdicts"]] == ["fedavg", "fedbuff"]


def test_the_page_of_the_documents_names_every_algorithm_with_its_options() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    for name, one in ALGORITHMS.items():
        own = ", ".join(f"`{option.name}`" for option in one.parameters if option.name != STEP) or "none"
        searched = ", ".join(f"`{option}`" for option in one.tunable)
        assert f"| `{name}` | {one.about} | {own} | {searched} | {'yes' if one.private else 'no'} |" in text, name


# -- numbers in place of classes -------------------------------------------------------------------------------------------


@pytest.fixture
def prices(tmp_path: Path) -> Config:
    """A run that predicts prices from two columns, by least squares."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 2))
    y = 3.0 + x @ [1.0, -2.0] + 0.1 * rng.normal(size=120)
    lines = [f"{a:.6f},{b:.6f},{label:.6f}" for (a, b), label in zip(x, y, strict=True)]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["rooms,age,price", *lines]) + "\n")
    return small(f"data.source='{path}'", "data.label=price", "objective.kind=least-squares", "data.test=0.25")


def test_least_squares_is_compared_and_tuned_by_r2(prices: Config) -> None:
    found = compare(prices, ["fedavg"], seeds=2, tune=3)
    assert found.score.name == "r2" and found.guess == 0.0
    data = load_data(prices)
    for one in found.contestants:
        alone = simulate(prices, data=data, algorithm=one.name, options=dict(one.options))
        assert one.values("r2")[0] == one.outcomes[0].score == alone.metrics[-1]["r2"]
        assert one.outcomes[0].rmse == alone.metrics[-1]["rmse"] and one.outcomes[0].accuracy is None
        assert one.tuned is not None and one.tuned.best is not None
        ended = [trial.outcome.r2 for trial in one.tuned.trials if trial.outcome.r2 is not None]
        assert len(ended) > 1 and one.tuned.best.outcome.r2 == max(ended), "the highest on the validation part"
    best = max(mean.mean for one in found.contestants if (mean := one.mean("r2")) is not None)
    assert best > 0.3 and found.target == pytest.approx(0.95 * best, abs=1e-4)
    told = found.as_json()
    assert told["measure"] == "r2" and told["algorithms"]["fedavg"]["r2"]["mean"] and "r2" in told["verdicts"][0]


def test_the_page_and_tables_of_least_squares_say_r2_and_nowhere_accuracy(prices: Config) -> None:
    found = compare(prices, ["fedavg"], seeds=2, tune=2)
    text = comparison_page(story_of_comparison(found), "plotly.js")
    page = text.split("<script")[0] + found.summary() + repr(found) + found._repr_html_()
    for words in (
        "R² during the run",
        "to R² 0.",
        "Target R²",
        "always answering with the mean label",
        "validation R²",
    ):
        assert words in page
    assert "ccura" not in page and "commonest" not in page
    assert drawn(text)["curves"]["seconds"]["alt"].startswith("R² against virtual seconds")
    rows = list(csv.DictReader(csv_of(found).splitlines()))
    assert float(rows[0]["r2"]) == found.ours.values("r2")[0] and rows[0]["accuracy"] == ""


def test_a_bad_fit_is_shown_where_it_lies_below_zero(prices: Config) -> None:
    low = ["schedule.rounds=1", "schedule.steps.eta0=1e-4"]
    found = compare(prices.plain(), ["fedavg"], seeds=2, overrides=low)
    mean = found.ours.mean("score")
    assert mean is not None and mean.mean < 0 and found.target is None, "the mean label of the test part fits better"
    figure = drawn(comparison_page(story_of_comparison(found), "plotly.js"))
    assert figure["shown"][0] < mean.mean and figure["ends"][0] < mean.mean
    bands = [trace["y"] for trace in figure["curves"]["seconds"]["data"] if trace.get("hoverinfo") == "skip"]
    assert min(value for values in bands for value in values if value is not None) < 0


def test_a_comparison_of_least_squares_is_printed_and_goes_on_from_its_folder(
    prices: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prices.toml").write_text(prices.to_toml())
    command = ["compare", "prices.toml", "--with", "fedavg", "--seeds", "2"]
    printed = CliRunner().invoke(app, command).output
    assert "against fedavg: R² " in printed and "he target is R² 0." in printed and "accura" not in printed
    again = Points()
    kept = compare(prices, ["fedavg"], seeds=2, out=Path("runs/prices-compare"), tell=again)
    assert again.kept == 4 and kept.ours.values("r2") == compare(prices, ["fedavg"], seeds=2).ours.values("r2")
    refused = CliRunner().invoke(app, [*command, "--target", "2", "--out", "other"])
    assert refused.exit_code == 1 and "--target must be an R² above 0 and up to 1, not 2" in refused.output


def test_a_sweep_of_least_squares_is_by_r2_too(prices: Config) -> None:
    found = sweep(prices.plain(), ["schedule.rounds=1,6"])
    best = found.best()
    assert found.words == "R²" and best is not None and best.values == ("6",)
    story = story_of(found)
    assert story.measure == "R²" and story.headline[1][0] == "Highest R²" and "R²" in story.groups.head
    assert "R² is measured on the test part" in story.notes[0] and "best r2=" in repr(found)
    both = sweep(small(), ["run.seed=0,1"])
    assert both.words == "accuracy"
