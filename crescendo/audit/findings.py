"""Findings of an audit: bounds on epsilon, and a row for each check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

DETERMINISTIC = {
    "sensitivity": "a record that changes too much",
    "carried over": "more kept than was sent",
    "certified formula": "a release unlike the formula's",
    "public grid": "numbers off the public grid",
    "start models": "starts not made of messages",
    "draws asked for": "other records or rates",
    "messages": "missing, longer, or with more",
    "messages sent again": "other bytes than the first time",
    "charged as sent": "releases that the ledger does not count",
    "rounds gone on with": "another draw, or stored noise",
    "models that remember": "gradients that tell of other records",
    "random bits' source": "few bits, or bits used twice",
    "draws at full size": "draws unlike the bits behind them",
    "records admitted": "records that are left out or too long",
    "runs to the end": "records that stop the run",
    "edges": "noise lost under extreme terms",
    "wires": "another release on another wire",
    "certificate": "numbers that the terms deny",
    "terms to be refused": "certificates given for what is false",
}
"""Deterministic checks by name, and the fault that each detects."""


@dataclass(frozen=True)
class Finding:
    """A contradiction between the certificate and the releases."""

    kind: str
    says: str


@dataclass(frozen=True)
class Row:
    """One check: its p-value ``p`` must stay above ``level``; both are None for a deterministic check.

    ``says`` describes the fault or, for a check that passed, the most suspicious place.
    """

    name: str
    looks_for: str
    source: str | None
    p: float | None
    level: float | None
    exact: bool
    passed: bool
    says: str


@dataclass(frozen=True)
class Report:
    """Plain data. Lower bounds hold with probability ``confidence`` each; None stands for a test that was not run.

    ``claimed_attacked`` is the accountant's epsilon for the rounds that the threshold test attacks. ``false_alarms`` bounds the
    chance that a sound mechanism fails.
    """

    mechanism: str
    client: int
    claimed: float
    delta: float
    confidence: float
    lower: float
    lower_shift: float
    lower_threshold: float | None
    claimed_attacked: float | None
    worst_ratio: float
    carried_ratio: float
    noise_ratio: float
    shift_ratio: float
    shift_error: float
    tries: int
    runs: int
    findings: tuple[Finding, ...]
    checks: tuple[Row, ...] = ()
    numbers: int = 0  # noise numbers that were examined
    false_alarms: float = 1e-4
    name: str | None = None  # of the client, if it has one

    @property
    def passed(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object, with the verdict."""
        return {"verdict": "passed" if self.passed else "failed", **asdict(self)}
