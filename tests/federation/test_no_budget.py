"""Without noise there is no epsilon: a policy or a ledger with a budget says so, and does not ask for "more noise"."""

from __future__ import annotations

from pathlib import Path

import pytest

from crescendo.errors import ConfigError, Refused
from crescendo.federation.policy import Policy
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.ledger.book import Book
from crescendo_dp.ledger.budget import Budget


def test_a_policy_that_allows_no_mechanism_has_no_budget_to_keep_to(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    for budget in ("epsilon = 1.0", "delta = 1e-6", "epsilon = 1.0\ndelta = 1e-6"):
        path.write_text(f'mechanisms = ["none"]\n{budget}\n')
        with pytest.raises(ConfigError, match="has no budget; remove epsilon and delta") as refused:
            Policy.read(path)
        assert "inf" not in str(refused.value) and "more noise" not in str(refused.value)
    path.write_text('mechanisms = ["none"]\n')
    assert Policy.read(path).budget().epsilon == float("inf")


def test_a_budget_is_not_asked_for_more_noise_where_there_is_none() -> None:
    book = Book(Budget(1.0, 1e-6))
    with pytest.raises(Refused, match="adds no noise that an epsilon could come from") as refused:
        book.quote("flights", "9f3c", "AA", (PoissonGaussian(0.01, 0.0),), delta=1e-7)
    assert "more noise" not in str(refused.value)
