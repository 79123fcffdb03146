"""The table of sound audits: uniform p-values pass, others are denied, and so many rows are judged together."""

from __future__ import annotations

import numpy as np

from experiments.sound_audits import table


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
