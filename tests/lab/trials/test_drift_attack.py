"""A small drift attack: it breaks the paper's private client, and neither of our mechanisms."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.trials.drift_attack import attack_literal, attack_ours, drawing, moved_literally, picture


def test_one_record_moves_the_paper_s_sum_by_a_hundred_clips() -> None:
    assert 130 < moved_literally(183) < 140


@pytest.mark.slow
def test_the_attack_breaks_the_paper_s_claim_and_not_ours(tmp_path: Path) -> None:
    literal = attack_literal(rounds=183, runs=400, seed=1)
    assert literal.measured > 2.5 * literal.claimed
    ours = [attack_ours(mechanism, rounds=12, runs=40, seed=1) for mechanism in ("minibatch", "local")]
    for each in ours:
        assert each.moved <= 1 + 1e-6 and each.measured <= each.claimed
    picture([literal, *ours], tmp_path / "drift.html")
    drawing([literal, *ours], tmp_path / "drift.svg")
    assert "plotly" in (tmp_path / "drift.html").read_text() and "<svg" in (tmp_path / "drift.svg").read_text()
