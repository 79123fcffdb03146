"""A draft says nothing but what was released, whatever the cells hold, and finds what stands out of the noise."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.data.tables.cells import objects
from crescendo.data.tables.feature_schema import CategoryColumn, NumberColumn
from crescendo.data.tables.stated_columns import PublicRange, Statement
from crescendo.data.tables.written_numbers import Written
from crescendo.drafter.cell_places import MOST_POWER, OCTAVES, bins, edge, octaves, places
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.drafter.private_draft import PrivateDraft, private_draft
from crescendo.errors import DataError
from crescendo.privacy.mechanisms.noise import SeededSource
from tests.drafter.tables import HEADER, drafted_from, patients, table_of

ODD = [
    "",
    "NaN",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "5e-324",
    "1e999",
    "0",
    "-0.0",
    "01",
    "1_000",
    "true",
    "Zu\u0308rich",
    "x" * 500,
]
ODD += ["\u202eabc", "2024-02-30", "12:30", "\x00", "=1+1", "'", "null", "1,5", "\ud7ff", "  "]
CELLS = st.one_of(st.sampled_from(ODD), st.text(max_size=6), st.floats().map(repr))


# -- one cell, one place -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(CELLS, max_size=8), CELLS, st.booleans(), st.booleans())
def test_a_cell_more_is_one_more_in_one_place_at_most(
    cells: list[str], one: str, by_number: bool, by_text: bool
) -> None:
    known, said = places(objects(cells), by_number=by_number, by_text=by_text)
    after, says = places(objects([*cells, one]), by_number=by_number, by_text=by_text)
    moved = np.count_nonzero(after != known) + len(says - said)
    assert (after >= known).all() and not said - says
    assert moved <= 1 and after.sum() + sum(says.values()) - known.sum() - sum(said.values()) <= 1


@given(st.floats(allow_nan=False))
def test_a_number_lies_in_its_octave(value: float) -> None:
    at = int(octaves(np.array([value]))[0])
    far = abs(value) >= 2.0**MOST_POWER
    assert (0 <= at < OCTAVES) and (far or edge(at) <= value <= edge(at + 1) or abs(value) < 2.0**-MOST_POWER)


@given(st.lists(st.floats(), max_size=6), st.floats(), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_a_number_more_is_in_one_bin_at_most(values: list[float], one: float, low: float, step: float) -> None:
    moved = bins(np.array([*values, one]), low, step, 10) - bins(np.array(values), low, step, 10)
    assert set(moved.tolist()) <= {0.0, 1.0} and moved.sum() <= 1


# -- what a draft depends on ----------------------------------------------------------------------------------------------


SOME = patients(3000)


class Scripted(NoisyCounts):
    """Answers from a list of what is released, whatever the records hold; keeps the shapes that were asked."""

    def __init__(self, made: DraftCertificate, seed: int) -> None:
        super().__init__(made, SeededSource(seed, client=0))
        self.rng, self.asked = np.random.default_rng(seed), list[int]()

    def of_places_and_texts(self, counts, said):  # type: ignore[no-untyped-def]
        self.asked.append(len(counts))
        noisy = self.rng.normal(0, self.certificate.noise, len(counts))
        noisy[self.rng.integers(0, len(counts), 3)] += 30 * self.certificate.noise
        texts = ["a", "b", "c"][: int(self.rng.integers(0, 4))]
        return noisy, dict.fromkeys(texts, 40 * self.certificate.noise)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from([1, 40, 3000]))
def test_nothing_in_a_draft_depends_on_a_count_that_was_not_released(seed: int, some: int, others: int) -> None:
    made = []
    for rows in (some, others):
        table = replace(table_of(HEADER, SOME[:rows]), rows=rows**5)
        request = DraftRequest(1.0, 1e-6)
        questions = request.questions(list(table.columns), "a table")
        counts = Scripted(DraftCertificate.of(request, questions), seed)
        made.append((private_draft(table, request, questions, counts).to_json(), counts.asked))
    assert made[0] == made[1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=12), st.integers(0, 2**32), st.integers(1, 30))
def test_no_cell_upsets_a_draft_and_it_can_be_stored(rows: list[tuple[str, ...]], seed: int, times: int) -> None:
    lines = [
        ",".join(cell.replace(",", "").replace("\n", "").replace("\r", "") for cell in row) for row in rows
    ] * times
    draft = drafted_from(
        table_of("a,b,c", [line.encode("utf-8", "surrogatepass") for line in lines]), DraftRequest(50.0, 1e-3), seed
    )
    stored = json.loads(json.dumps(draft.to_json(), allow_nan=False))
    assert PrivateDraft.from_json(stored, draft.certificate) == draft


@pytest.mark.parametrize("lines", [[], ["1,2,3"], [b"\xff,1,2", "1,2", '"a,b,c', ""], ["x" * 10**6 + ",1,2"] * 3])
def test_no_record_one_record_and_lines_that_are_none_give_a_draft(lines: list[str | bytes]) -> None:
    draft = drafted_from(table_of("a,b,c", lines), DraftRequest(1.0, 1e-6))
    assert draft.records >= 1
    with pytest.raises(DataError, match="no column of a table stands out of the noise"):
        draft.usable("a table")


@pytest.mark.slow
def test_texts_that_never_repeat_are_not_released() -> None:
    table = table_of("name,x,y", (f"person {i},{i % 7},{i % 2}" for i in range(20_000)))
    draft = drafted_from(table, DraftRequest(1.0, 1e-6))
    assert draft.left_out == {"name": "nothing in it stands out of the noise"} and "person" not in json.dumps(
        draft.to_json()
    )


def test_no_more_histograms_are_released_than_are_certified() -> None:
    """Each kind of column, label and statement: the count in the certificate is the most that is asked."""
    table = table_of(HEADER, patients(4000))
    for stated in (
        {},
        {"records": 4000},
        {"categories": ("sex",)},
        {"numbers": ("age",)},
        {"label": "age"},
        {"columns": {"died": ("yes", "no")}},
    ):
        request = DraftRequest(4.0, 1e-6, **stated)
        questions = request.questions(list(table.columns), "a table")
        counts = NoisyCounts(DraftCertificate.of(request, questions), SeededSource(1, client=0))
        private_draft(table, request, questions, counts)
        assert counts._asked <= counts.certificate.histograms


# -- what it finds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_ranges_cover_nearly_all_cells_and_categories_are_found(epsilon: float) -> None:
    table = table_of(HEADER, patients(10_000))
    draft = drafted_from(table, DraftRequest(epsilon, 1e-6))
    columns = {one.name: one for one in draft.usable("a table").columns}
    age, income, city = columns["age"], columns["income"], columns["city"]
    assert isinstance(age, NumberColumn) and isinstance(income, NumberColumn) and isinstance(city, CategoryColumn)
    for column in (age, income):
        values = table.columns[column.name].astype(float)
        assert np.mean((values >= column.low) & (values <= column.high)) > 0.95
        assert column.low <= np.quantile(values, 0.4) < column.missing < np.quantile(values, 0.6) <= column.high
    assert age.high - age.low < 128 and city == CategoryColumn("city", ("Bergen", "Oslo"), False, True)
    assert (
        draft.classes == ("no", "yes") and draft.left_out == {"visited": "dates"} and 9_000 <= draft.records <= 11_000
    )


def test_labels_that_are_numbers_get_a_range() -> None:
    lines = [f"{x:.3f},{100 + 20 * x:.2f}" for x in np.random.default_rng(0).normal(size=6000)]
    draft = drafted_from(table_of("x,y", lines), DraftRequest(1.0, 1e-6))
    assert draft.classes is None and draft.label_range is not None
    low, high = draft.label_range
    assert 0 <= low < 70 and 130 < high < 230


def test_stated_columns_are_as_stated_and_cost_nothing() -> None:
    table = table_of(HEADER, patients(500))
    columns: dict[str, Statement] = {"age": PublicRange(0.0, 110.0), "sex": ("f", "m"), "died": ("no", "yes")}
    draft = drafted_from(table, DraftRequest(0.1, 1e-6, columns=columns, drop=("income", "city", "visited")))
    age = NumberColumn("age", 0.0, 110.0, 55.0, True)
    assert draft.usable("a table").columns == (age, CategoryColumn("sex", ("f", "m"), True, True))
    assert draft.certificate.histograms == 1


def test_labels_that_mean_the_same_are_one_class() -> None:
    table = table_of("x,y", [f"{i % 5},{('1', '01', '0')[i % 3]}" for i in range(9000)])
    assert drafted_from(table, DraftRequest(2.0, 1e-6)).classes == (0, 1)


@pytest.mark.slow
def test_a_column_of_very_many_texts_is_counted() -> None:
    cells = Counter(f"{i}" for i in range(300_000))
    made = DraftCertificate(1.0, 1e-6, 5e-7, 4.0, 1, 1)
    assert NoisyCounts(made, SeededSource(0, client=0)).of_places_and_texts(np.zeros(1), cells)[1] == {}


# -- declared kinds ------------------------------------------------------------------------------------------------------


def test_a_declared_kind_is_counted_as_numbers_and_goes_into_the_schema() -> None:
    """Undeclared it is text of which nothing repeats: the drafter never infers a kind from records."""
    table = table_of("pay,died", [f'"${1000 + at:,}.50",{("no", "yes")[at % 2]}' for at in range(3000)])
    kinds = {"pay": Written("money", "USD")}
    drafted = drafted_from(table, DraftRequest(4.0, 1e-6, kinds=kinds))
    assert drafted.schema is not None
    (pay,) = drafted.schema.columns
    assert isinstance(pay, NumberColumn) and pay.written == kinds["pay"]
    assert 500 <= pay.low <= 1200 and 3700 <= pay.high <= 4200
    assert drafted_from(table, DraftRequest(4.0, 1e-6)).schema is None


def test_a_request_without_kinds_is_the_one_that_was_bought_before_there_were_any() -> None:
    request = DraftRequest(0.5, 1e-7, "died", records=100)
    assert (
        request.digest(["age", "died"], "a.csv") == "731f6e65bfd410ba2be71761c8132e6a66d0746e797133c304fe7c35bafdcf8f"
    )
    assert replace(request, kinds={"age": Written("percent")}).digest(["age", "died"], "a.csv") != request.digest(
        ["age", "died"], "a.csv"
    )
