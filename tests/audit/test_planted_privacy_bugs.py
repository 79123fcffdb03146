"""The audit is seen to fail: a run with one bug, and the check that must catch it.

Short audits, with fixed seeds. `python -m tests.audit.planted_bugs` prints the table at the settings that users have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crescendo.audit import audit
from crescendo.audit.checks import CHECKS
from crescendo.audit.findings import DETERMINISTIC
from crescendo.privacy.mechanisms.noise import SeededSource
from tests.audit.planted_bugs import BUGS, UNSEEN, Bug, caught_by, subject
from tests.audit.planted_edges import EDGES

pytestmark = pytest.mark.slow

RIGHT: list[dict[str, Any]] = [
    {},
    {"blocks": 2},
    {"mechanism": "local"},
    {"mechanism": "local", "blocks": 2, "clients": 3},
    {"mechanism": "local", "l2": 1.2},
    {"mechanism": "local", "l2": 0.0, "bound": 1.2, "eta": 5.7},
    {"mechanism": "batch-clip", "blocks": 2, "l2": 1.2, "eta": 1.6},
]


def named(bug: Bug) -> str:
    return f"{bug.name}-{bug.case()[0].mechanism}"


@pytest.mark.parametrize("options", RIGHT)
def test_the_right_code_passes(options: dict[str, Any]) -> None:
    report = audit(
        *subject(**options),
        claimed=1.0,
        delta=1e-5,
        runs=40,
        tries=100,
        seed=5,
        cost=lambda e: 0.0,
        sources=SeededSource,
    )
    assert report.passed, report.findings


@pytest.mark.parametrize("bug", [*BUGS, *UNSEEN], ids=named)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    report = bug.audited(**({"runs": bug.needs, "tries": 48} | bug.options))
    caught = caught_by(report)
    assert caught, f"nothing caught it: {bug.says}"
    assert not bug.by or bug.by in caught, report.findings


PROVED_ALONE = {"charged as sent", "records admitted", "terms to be refused"}
"""Checks of what surrounds a release: `test_certified_numbers` and `test_exactness` plant faults in what each looks at."""


def test_every_check_catches_a_planted_bug() -> None:
    """A check that never fails is no check: a bug names each, or a row of the documented table, or `PROVED_ALONE`."""
    table = Path("docs/audit.md").read_text()
    names = [*DETERMINISTIC, *(check.name for check in CHECKS)]
    planted = {bug.by for bug in BUGS} | {edge.by for edge in EDGES}
    unproved = sorted(name for name in names if name not in planted and f" {name}" not in table)
    assert unproved == sorted(PROVED_ALONE)


def test_the_documented_table_has_every_bug_and_none_that_escaped() -> None:
    table = Path("docs/audit.md").read_text()
    for bug in [*BUGS, *UNSEEN]:
        rows = [line for line in table.splitlines() if line.startswith(f"| {bug.says} ")]
        assert rows, bug.says
    assert "**nothing**" not in table
