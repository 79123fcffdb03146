"""A statement is made only where the interval of the shared seeds' differences allows it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from crescendo.studies.contestants import Contestant, course
from crescendo.studies.points import Outcome
from crescendo.studies.verdicts import RivalVerdict, summary, verdict

ACCURACIES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8)


def contestant(name: str, accuracies: Sequence[float | None], seconds: Sequence[float | None] = ()) -> Contestant:
    """Its runs begin at accuracy 0, and reach their last one at the given second."""
    outcomes = []
    for place, accuracy in enumerate(accuracies):
        at = seconds[place] if seconds else 1.0
        curve: dict[str, list[float | None]] = {
            "seconds": [0.0, at],
            "bytes": [100.0, 200.0],
            "gradients": [0, 10],
            "accuracy": [0.0, accuracy],
        }
        outcomes.append(Outcome("done", accuracy=accuracy, loss=0.1, curve=curve))
    return Contestant(name, "", {}, tuple(outcomes))


@given(ACCURACIES)
def test_accuracies_are_told_apart_exactly_if_a_paired_t_test_tells_them(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    differences = [a - b for a, b in pairs]
    assume(max(differences) - min(differences) > 1e-6)
    p = stats.ttest_rel(ours, theirs).pvalue
    assume(abs(p - 0.05) > 1e-6)
    told = verdict(contestant("ours", ours), contestant("theirs", theirs), None).score
    assert (told.better is not None) == (p < 0.05)
    back = verdict(contestant("theirs", theirs), contestant("ours", ours), None).score
    assert back.better == (None if told.better is None else not told.better)
    assert ("not significant" in told.says) == (told.better is None)


def test_two_seeds_that_differ_by_the_same_prove_nothing_on_a_small_test_part() -> None:
    ours, theirs = contestant("crescendo", [0.80, 0.75]), contestant("fedavg", [0.78, 0.73])
    assert verdict(ours, theirs, None, tested=100).score.better is None, "two records of a hundred"
    assert verdict(ours, theirs, None, tested=100_000).score.better is True, "two thousand records"


def test_equal_accuracies_are_no_difference() -> None:
    ours = contestant("crescendo", [0.8, 0.7, 0.9])
    assert verdict(ours, contestant("fedavg", [0.8, 0.7, 0.9]), None, tested=50).score.better is None


def test_a_run_without_an_accuracy_is_not_left_out_of_the_mean() -> None:
    broken = contestant("fedavg", [0.9, None])
    assert broken.mean("accuracy") is None
    told = verdict(contestant("crescendo", [0.5, 0.6]), broken, 0.5)
    assert told.score.says == "not compared: fedavg has no accuracy in 1 of 2 seeds" and told.score.better is None
    assert told.seconds.says == "reached by crescendo in 2 of 2 seeds, by fedavg in 1 of 2"


def test_time_to_the_target_is_a_ratio_of_theirs_to_ours() -> None:
    ours, theirs = contestant("crescendo", [0.9] * 3, [1.0, 2.0, 3.0]), contestant("fedavg", [0.9] * 3, [2.0, 4.0, 6.0])
    told = verdict(ours, theirs, 0.8)
    assert (
        told.seconds.better is True and told.seconds.says == "x 2.00 (2.00 to 2.00): crescendo needs less virtual time"
    )
    assert told.bytes.better is None and "not significant" in told.bytes.says
    assert verdict(ours, theirs, 0.95).seconds.says == "reached by crescendo in 0 of 3 seeds, by fedavg in 0 of 3"


def test_the_summary_names_every_rival_once() -> None:
    ours = contestant("crescendo", [0.80, 0.81, 0.82])
    others = {"a": [0.70, 0.71, 0.72], "b": [0.90, 0.91, 0.92], "c": [0.9, 0.81, 0.7], "d": [0.7, 0.81, 0.95]}
    verdicts = [verdict(ours, contestant(name, values), None) for name, values in others.items()]
    assert summary(verdicts, "crescendo", 3) == (
        "Crescendo is more accurate than a; crescendo is less accurate than b; "
        "the difference in accuracy between crescendo and c and d is not significant."
    )


def test_the_accuracy_at_a_time_is_that_of_the_newest_model_by_then() -> None:
    early, late = contestant("a", [0.8], [10.0]).outcomes[0], contestant("a", [0.6], [20.0]).outcomes[0]
    x, means = course([early, late], "seconds")
    by_x = dict(zip(x, means, strict=True))
    assert (x[0], x[-1]) == (0.0, 20.0)
    for at, mean in by_x.items():
        expected = [0.8 if at >= 10 else 0.0, 0.6 if at >= 20 else 0.0]
        assert mean is not None and mean.mean == pytest.approx(sum(expected) / 2)
    assert course([early, Outcome("failed", "no")], "seconds") == ([], [])


def test_a_verdict_of_one_rival_is_plain_data() -> None:
    told = verdict(contestant("crescendo", [0.5]), contestant("b", [0.4]), None)
    assert isinstance(told, RivalVerdict) and told.to_json()["accuracy"]["interval"]["low"] is None
