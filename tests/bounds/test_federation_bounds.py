"""Bounds on terms, which a hostile server may write: at one less, at the bound and at one more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from crescendo.errors import Refused
from crescendo.federation import agreement, terms_limits, terms_tables
from crescendo.federation.agreement import LONGEST, MOST_TEXT, build_terms, canonical
from crescendo.federation.objective_terms import KIND, MOST_OWN_FEATURES
from crescendo.federation.terms_limits import LARGEST, LONGEST_TEXT, MOST_SLOTS, SLOT_BY_SLOT, check_values
from crescendo.federation.terms_tables import LONGEST_NAME, MOST_FEATURES, MOST_NUMBERS
from tests.bounds.edges import around
from tests.federation.terms_texts import sound


def plain() -> dict[str, Any]:
    """Terms without privacy, of a model of ours."""
    texts = map(json.loads, sound())
    return next(raw for raw in texts if not raw["privacy"] and "features" in raw["objective"])


def is_refused(raw: dict[str, Any]) -> bool:
    try:
        build_terms(canonical(raw))
    except Refused as error:
        assert len(str(error)) <= LONGEST and str(error).isprintable()
        return True
    return False


@around(MOST_TEXT)
def test_a_text_of_terms_has_so_many_characters(many: int) -> None:
    with pytest.raises(Refused) as refused:
        build_terms("[" + " " * (many - 2) + "]")
    assert ("characters" in str(refused.value)) is (many > MOST_TEXT)


@around(LONGEST)
def test_a_sentence_about_terms_is_so_long_at_most(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*words: Any) -> None:
        raise Refused("x" * many)

    text = sound()[0]
    monkeypatch.setattr(agreement, "_build", fails)
    with pytest.raises(Refused) as refused:
        build_terms(text)
    assert len(str(refused.value)) == min(many, LONGEST)


@around(LONGEST_TEXT)
def test_a_text_in_terms_has_so_many_letters(many: int) -> None:
    if many > LONGEST_TEXT:
        with pytest.raises(ValueError, match="letters"):
            check_values({"federation": "x" * many})
    else:
        check_values({"federation": "x" * many})


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_whole_number_in_terms_is_so_large_at_most(more: int, sign: int) -> None:
    if more > 0:
        with pytest.raises(ValueError, match="at most 2"):
            check_values([sign * (LARGEST + more)])
    else:
        check_values([sign * (LARGEST + more)])


@pytest.mark.slow
@around(LONGEST_NAME)
def test_names_in_terms_are_so_long_at_most(many: int) -> None:
    raw = plain()
    raw["federation"] = "f" * many
    assert is_refused(raw) is (many > LONGEST_NAME)
    raw = plain()
    raw["clients"]["names"][0] = "n" * many
    assert is_refused(raw) is (many > LONGEST_NAME)


@around(50)
def test_a_client_has_so_many_gradients_in_a_round(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_SLOTS == 1 << 27
    raw = plain()
    monkeypatch.setattr(terms_limits, "MOST_SLOTS", 50)
    raw["clients"] |= {"names": ["a"], "weights": [1.0]}
    raw["schedule"]["rounds"] = 3
    raw["schedule"]["sizes"] = {"kind": "constant", "size": many}
    assert is_refused(raw) is (many > 50)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_steps_by_gradient_are_for_so_many_rounds_and_gradients(
    which: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SLOT_BY_SLOT == (100_000, 1 << 22, 1 << 26)
    limits = [10, 40, 400]  # rounds, gradients in a round and in the run
    limits[which] -= more
    raw = plain()
    monkeypatch.setattr(terms_limits, "SLOT_BY_SLOT", tuple(limits))
    raw["clients"] |= {"names": ["a"], "weights": [1.0]}
    raw["schedule"] |= {"rounds": 10, "sizes": {"kind": "constant", "size": 40}}
    raw["schedule"]["steps"] = {**raw["schedule"]["steps"], "per": "slot"}
    assert is_refused(raw) is (more > 0)


@around(MOST_FEATURES)
def test_a_model_of_ours_has_so_many_features(many: int) -> None:
    found = bounds_of("features", MOST_FEATURES)
    assert found and all((low <= many <= high) is (many <= MOST_FEATURES) for low, high in found)


@around(MOST_OWN_FEATURES)
def test_a_model_of_someone_elses_has_so_many_features(many: int) -> None:
    found = bounds_of("features", MOST_OWN_FEATURES)
    assert found and all((low <= many <= high) is (many <= MOST_OWN_FEATURES) for low, high in found)


@around(MOST_NUMBERS)
def test_a_model_that_is_only_described_has_so_many_numbers(many: int) -> None:
    found = bounds_of("size", MOST_NUMBERS)
    assert found and all((low <= many <= high) is (many <= MOST_NUMBERS) for low, high in found)


def bounds_of(name: str, highest: int) -> list[tuple[int, int]]:
    """The bounds of the tables of terms that have a field with this upper bound."""
    found = []
    for table in vars(terms_tables).values():
        if isinstance(table, type) and issubclass(table, BaseModel) and name in table.model_fields:
            limits = {type(one).__name__: one for one in table.model_fields[name].metadata}
            if "Le" in limits and limits["Le"].le == highest:
                found.append((limits["Ge"].ge, limits["Le"].le))
    return found


@around(100)
def test_the_name_of_a_model_s_file_and_of_its_class_are_short(many: int) -> None:
    assert bool(KIND.fullmatch("m" * many + ".py:Model")) is (many <= 100)
    assert bool(KIND.fullmatch("model.py:" + "M" * many)) is (many <= 100)
