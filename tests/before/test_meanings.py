"""What the words of terms mean does not change: two sides of one federation may run different versions under the same text.

``meanings.json`` has texts of terms and what commit 0905781 made of them: shares, the first and last step of each round, delays
and the plan that a ledger signs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.federation.agreement import build_terms

STORED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "meanings.json").read_text())
CHANGED = {"slots, unequal"}  # docs/compatibility.md says so: end such a federation with the version that it began with


def means(text: str) -> dict[str, Any]:
    agreed = build_terms(text)
    terms, clients = agreed.terms, range(agreed.terms.clients)
    shares = [[int(terms.share(i, c)) for c in clients] for i in range(terms.rounds)]
    ends = [[terms.etas(i, c)[:: max(1, shares[i][c] - 1)].tolist() for c in clients] for i in range(terms.rounds)]
    tau = None if terms.tau is None else [float(terms.tau(t)) for t in (1, 10, 100, 1000)]
    plan = [[None if event is None else [event.rate, event.sigma] for event in agreed.plan(c)] for c in clients]
    return {"shares": shares, "etas": ends, "tau": tau, "plan": plan}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.isclose(a, b, rtol=1e-12, atol=0)) if isinstance(a, float) else bool(a == b)


@pytest.mark.parametrize("name", STORED)
def test_terms_mean_what_they_meant(name: str) -> None:
    now, before = means(STORED[name]["terms"]), STORED[name]["means"]
    assert ([part for part in before if not same(before[part], now[part])] == []) == (name not in CHANGED)
