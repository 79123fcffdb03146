"""Mutants are made and named by rule, planted in a child alone, and counted as they should be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.audit import mutate
from tests.audit.mutation import trial as trials
from tests.audit.mutation.explained import EXPLAINED
from tests.audit.mutation.operators import Mutant, chosen, mutants_of, path_of
from tests.audit.mutation.targets import TARGETS

ROUNDING = "crescendo.privacy.mechanisms.rounding"


def found(module: str, operator: str, before: str) -> Mutant:
    return next(one for one in mutants_of(module) if (one.operator, one.before) == (operator, before))


def draws() -> float:
    """What the module says."""
    from importlib import import_module

    return float(import_module(ROUNDING).most_drawn(4, 1000))


# -- a child: `child` forks, which only a process with one thread may do, so each test is a function of such a process ------


def _planted_alone() -> None:
    mutant = found(ROUNDING, "drop a term", "mean + beyond")
    sound, ended, _ = trials.child(draws, None, 60)
    assert (ended, sound) == ("return", draws())
    changed, ended, _ = trials.child(draws, mutant, 60)
    assert ended == "return" and changed == 8.0 and draws() == sound


@pytest.mark.slow
def test_a_mutant_is_planted_in_the_child_alone() -> None:
    assert children.run(_planted_alone) == 0


def _imported_again() -> None:
    mutant = next(one for one in mutants_of(ROUNDING) if (one.function, one.before) == ("<module>", "60"))
    assert trials.child(draws, mutant, 60)[0] != draws()


@pytest.mark.slow
def test_a_mutant_of_a_module_is_met_where_it_is_imported_again() -> None:
    assert children.run(_imported_again) == 0


def _tests_meet_it() -> None:
    mutant = next(one for one in mutants_of(ROUNDING) if (one.function, one.before) == ("<module>", "60"))
    assert (trials.tests(mutant, (), None)[0] or "").endswith("most_drawn")  # its doctest


@pytest.mark.slow
def test_tests_of_a_module_meet_its_mutant_though_pytest_is_given_the_file() -> None:
    assert children.run(_tests_meet_it) == 0


def test_mutants_of_compiled_loops_are_audited_where_the_loops_are_called() -> None:
    mutant = next(iter(mutants_of("crescendo.objectives.linear.margin_kernels")))
    lines = {"local": {"crescendo.objectives.linear.margin_model": [38]}, "own model": {"crescendo.worker": [1]}}
    assert trials.runs_for(mutant, lines) == ["local"]


def _length() -> float:
    from crescendo.objectives.layer_clips import LayerClips

    return LayerClips(((1, 3.0), (1, 4.0))).length


def _property() -> None:
    module = "crescendo.objectives.layer_clips"
    mutant = next(one for one in mutants_of(module) if one.function == "LayerClips.clips" or "hypot" in one.before)
    sound = trials.child(_length, None, 60)
    assert sound[0] >= 5.0 and trials.child(_length, mutant, 60)[:2] != sound[:2]


@pytest.mark.slow
def test_a_mutant_of_a_method_that_is_a_property_is_planted() -> None:
    assert children.run(_property) == 0


def _hangs() -> None:
    while True:
        pass


def _fails() -> None:
    raise KeyError("x")


def _ends() -> None:
    assert trials.child(_hangs, None, 1)[1] == "hang"
    assert trials.child(_fails, None, 60)[:2] == ("KeyError: 'x'", "error")
    assert trials.child(os.abort, None, 60)[1] == "death"


@pytest.mark.slow
def test_a_child_that_hangs_or_dies_is_told_from_one_that_fails() -> None:
    assert children.run(_ends) == 0


def test_words_types_and_assertions_have_no_mutants() -> None:
    lines = {one.line for one in mutants_of("crescendo.privacy.mechanisms.local", frozenset({"remedy"}))}
    text = path_of("crescendo.privacy.mechanisms.local").read_text().splitlines()
    for number in lines:
        assert not text[number - 1].lstrip().startswith(("raise", "assert", '"""', "from", "import")), number


@pytest.mark.slow
def test_mutants_are_chosen_by_seed_and_change_alone_and_no_two_have_one_key() -> None:
    for target in TARGETS[:3]:
        every = [one.key for one in mutants_of(target.module, target.left_out)]
        assert len(every) == len({*every})
        few, more = (chosen(target.module, n, 24, target.left_out) for n in (5, 12))
        assert [one.key for one in few] == [one.key for one in more[:5]]
        assert [one.key for one in chosen(target.module, 5, 25, target.left_out)] != [one.key for one in few]
        assert len({one.operator for one in few}) == 5


@pytest.mark.slow
def test_every_chosen_mutant_can_be_compiled_and_at_least_three_hundred_are() -> None:
    mutants = mutate.wanted(TARGETS)
    assert len(mutants) >= 300 and all(one.code for one in mutants[::9])
    parts = [mutate.part_of(mutants, f"{i}/7") for i in range(1, 8)]
    assert sorted(one.key for part in parts for one in part) == sorted(one.key for one in mutants)


@pytest.mark.slow
def test_what_is_explained_is_still_there_to_be_explained() -> None:
    modules = {key.partition(":")[0] for key in EXPLAINED}
    known = {one.key for target in TARGETS if target.module in modules for one in mutants_of(target.module)}
    assert {*EXPLAINED} <= known, {*EXPLAINED} - known
    assert all(len(why) > 20 for why in EXPLAINED.values())


def test_the_tables_count_each_trial_once(tmp_path: Path) -> None:
    out = tmp_path / "trials.jsonl"
    made = [trial("a", audit={"run": "local", "runs": 4, "by": ["edges"]}), trial("b", test="t"), trial("c")]
    out.write_text("".join(json.dumps(one) + "\n" for one in made) + '{"key": "cut of')
    known = mutate.stored(out)
    assert [*known] == ["a", "b", "c"]
    said = [*mutate.summary(known.values())]
    assert "| all | 3 | 1 | 1 | 0 | 1 |" in said
    assert "2 of 3 mutants that change something are caught: 66.7%" in said
    assert "1 of 3 that change a release or its certificate are caught by the audit alone: 33.3%" in said
    assert said[-1] == "nothing catches c | c"


def trial(key: str, audit: Any = None, test: str | None = None) -> dict[str, Any]:
    done = {"audit": audit, "test": test, "audit_seconds": 1.0, "test_seconds": 0.0}
    return {"key": key, "name": key, "module": ROUNDING, "operator": "off by one"} | done
