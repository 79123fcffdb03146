"""What a draft's certificate says holds, and is refused with what would pass where it shows nothing."""

from __future__ import annotations

import math

import pytest
from scipy.special import ndtr

from crescendo.data.tables.stated_columns import PublicRange
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest
from crescendo.errors import ConfigError, Refused
from crescendo.privacy.mechanisms.gaussian import grid
from crescendo_dp.accounting.epsilon import account

HEADER = ["age", "income", "city", "died"]


def certified(epsilon: float = 1.0, delta: float = 1e-6, **stated: object) -> DraftCertificate:
    request = DraftRequest(epsilon, delta, **stated)  # type: ignore[arg-type]
    return DraftCertificate.of(request, request.questions(HEADER, "a table"))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 8.0])
def test_the_epsilon_is_kept_and_the_noise_is_not_much_more_than_it_needs(epsilon: float) -> None:
    made = certified(epsilon)
    assert made.spent() <= epsilon
    assert account([(type(made.event)(1.0, made.sigma / 1.01), 1)], made.delta - made.failure).epsilon > epsilon


def test_one_histogram_for_each_look_that_a_record_can_have_a_part_in() -> None:
    assert certified().histograms == 1 + 3 * 2 + 3
    assert certified(records=1000).histograms == 3 * 2 + 3
    assert certified(columns={"died": ("no", "yes")}).histograms == 1 + 3 * 2
    assert certified(columns={"age": PublicRange(0.0, 110.0)}, categories=("city",)).histograms == 1 + 2 + 1 + 3
    assert certified(drop=("age",), numbers=("inc*",)).texts == 1 + 1


def test_the_noise_is_for_all_histograms_and_the_threshold_for_every_text_that_one_record_can_bring() -> None:
    made = certified()
    assert made.noise >= made.sigma * math.sqrt(made.histograms) > made.noise * (1 - 1e-12)
    passes = float(ndtr(-(made.threshold - 1 - grid(made.noise)) / made.noise))
    chance = 1 - (1 - passes) ** made.texts
    assert chance / (1 - chance) <= made.failure < made.delta
    assert 1.01 * made.texts * passes > made.failure * 0.99
    assert certified(numbers=("*",), columns={"died": ("no", "yes")}).threshold == math.inf
    assert certified(numbers=("*",), columns={"died": ("no", "yes")}).failure < 1e-100


def test_too_little_for_so_many_records_is_refused_with_an_epsilon_that_passes() -> None:
    with pytest.raises(Refused, match="400 records cannot be seen; epsilon = ") as refused:
        certified(0.1, records=400)
    passes = float(str(refused.value).split("epsilon = ")[1].split()[0])
    assert certified(passes, records=400).least <= 400


def test_a_draft_of_nothing_is_refused() -> None:
    stated = {**dict.fromkeys(("age", "income", "city"), PublicRange(0.0, 1.0)), "died": ("no", "yes")}
    with pytest.raises(Refused, match="nothing to count"):
        certified(columns=stated, records=10)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"label": "x"}, "--label names 'x'"),
        ({"columns": {"x": PublicRange(0, 1)}}, "--range or --values names 'x'"),
        ({"numbers": ("lab_*",)}, "--numbers has 'lab_\\*'"),
        ({"drop": ("age", "income", "city")}, "no column left"),
        ({"columns": {"died": ("a",)}}, "at least two classes"),
        ({"records": 0}, "--records is about how many"),
        ({"epsilon": 0.0}, "--epsilon is a number above 0"),
        ({"epsilon": math.nan}, "--epsilon is a number above 0"),
        ({"delta": 1.0}, "--delta is a number between 0 and 1"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_record_is_read(stated: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        certified(**stated)  # type: ignore[arg-type]


def test_two_columns_that_no_schema_takes_are_refused_before_anything_is_paid() -> None:
    with pytest.raises(ConfigError, match="looks like the column"):
        DraftRequest(1.0, 1e-6).questions(["\ufb01le", "file", "died"], "a table")


def test_an_epsilon_out_of_reach_is_refused_in_a_sentence() -> None:
    with pytest.raises(Refused, match="cannot be certified"):
        certified(1e-12, 1e-30)
