"""Biased data against rivals: equal trials for all, no tuning on the test part, and a page that names the best."""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.contests import biased_rivals as rivals
from lab.experiments.training import dataset


def test_everybody_tries_as_many_options() -> None:
    tried = {one: rivals._trials(one) for one in (*rivals.OURS, *rivals.RIVALS)}
    assert {len(several) for several in tried.values()} == {len(rivals.SCALES)}
    assert all(len({tuple(one.items()) for one in several}) == len(several) for several in tried.values())


def test_what_is_tuned_on_is_a_part_of_the_training_records_and_none_of_the_test_part() -> None:
    data, held_out = dataset("breast_cancer"), rivals._held_out("breast_cancer")
    assert held_out.test is not None and data.test is not None
    rows = [np.asarray(part.x) for part in (held_out.train, held_out.test)]
    assert len(rows[0]) + len(rows[1]) == len(data.train) and len(rows[1]) == round(0.2 * len(data.train))
    assert sorted(map(tuple, np.vstack(rows).tolist())) == sorted(map(tuple, np.asarray(data.train.x).tolist()))
    tested = set(map(tuple, np.asarray(data.test.x).tolist()))
    assert not tested & set(map(tuple, np.vstack(rows).tolist()))


def outcome(split: str, contestant: str, score: float) -> dict[str, Any]:
    setting = {"source": "a9a", "split": split, "contestant": contestant, "gradients": 9, "trials": 8, "seeds": 2}
    return {**setting, "accuracies": [score, score], "options": {"step_scale": 1.0}}


def test_a_rival_that_is_better_is_said_to_be() -> None:
    scores = {"label": (0.76, 0.80), "dirichlet 0.1": (0.84, 0.83), "iid": (0.85, 0.85)}
    runs = [
        outcome(split, who, s) for split, pair in scores.items() for who, s in zip(("sum", "fedavg"), pair, strict=True)
    ]
    found = rivals.findings(runs)
    (said,) = found.statements
    assert said.verdict == "not reproduced" and "-0.0900, ± 0.0000 (label against iid)" in said.ours
    assert "label: FedAvg (0.8000, +0.0400 (+0.0400 to +0.0400) over the best of ours)" in found.remarks[0]
    assert "dirichlet 0.1: ours, sum (0.8400)" in found.remarks[0]
    assert found.tables[0].columns == ("split", "ours, sum", "FedAvg")
    absent = {"source": "phishing", "split": "iid", "contestant": "sum", "absent": "phishing"}
    assert rivals.findings([*runs, absent]).statements[-1].verdict == "data not present"
