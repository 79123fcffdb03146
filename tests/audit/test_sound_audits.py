"""The table of sound audits: uniform p-values pass, others are denied, and so many rows are judged together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.trials.sound_audits import append, stored, summary, table
from tests.audit import power


def test_uniform_p_values_are_not_denied_and_others_are() -> None:
    uniform = np.linspace(0, 1, 500)
    rows = {("even", True): uniform.tolist(), ("large", False): np.sqrt(uniform).tolist()}
    *_, exact, conservative = table(rows)
    assert exact.endswith("nothing denies it") and conservative.endswith("nothing denies it")
    *_, exact, conservative = table(rows | {("large", True): np.sqrt(uniform).tolist()})
    assert exact.startswith("2 rows") and exact.endswith("denied") and conservative.endswith("nothing denies it")
    *_, exact, conservative = table(rows | {("small", False): np.square(uniform).tolist()})
    assert (
        exact.endswith("nothing denies it") and conservative.startswith("2 rows") and conservative.endswith(": denied")
    )


def test_one_row_in_many_may_be_odd_by_chance() -> None:
    rng = np.random.default_rng(8)
    *_, exact, _ = table({(f"row {k}", True): rng.random(200).tolist() for k in range(60)})
    assert exact.startswith("60 rows") and exact.endswith("nothing denies it")


def test_a_run_is_gone_on_with_after_it_was_cut_off(tmp_path: Path) -> None:
    path, line = (
        tmp_path / "audits.jsonl",
        {"seed": 3, "seconds": 2.0, "findings": [], "ps": [["tags (seeded)", True, 0.4]]},
    )
    assert stored(None) == {} and stored(path) == {}
    append(path, line)
    with path.open("a") as file:
        file.write('{"seed": 4, "sec')
    append(path, line | {"seed": 5, "findings": ["edges: off by 1e-9"]})
    found = stored(path)
    assert list(found) == [3, 5]
    said = list(summary(found.values()))
    assert said[0] == "seed 5: edges: off by 1e-9" and said[1].endswith("seeds 3 to 5: 1 false alarms")


def test_the_power_of_the_audit_is_a_row_for_each_bug(tmp_path: Path) -> None:
    path, line = (
        tmp_path / "power.jsonl",
        {"bug": "id cache", "seed": 0, "seconds": 3.0, "caught": True, "says": ["so"]},
    )
    append(path, line)
    append(path, line | {"seed": 1, "says": []})
    found = power.stored(path)
    assert list(found) == [("id cache", 0), ("id cache", 1)]
    assert list(power.table(found.values()))[-1] == "| id cache | 2 of 2 | 1 | 3.0 |"
