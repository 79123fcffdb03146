"""Payment for a draft: the amount, the policy and the ledger, checked before any record is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from crescendo.drafter.bought_schema import BoughtSchema
from crescendo.drafter.charged_draft import charged_draft
from crescendo.drafter.draft_request import DraftRequest
from crescendo.errors import ConfigError
from crescendo.federation.policy import Policy

_SHARE = 10  # a draft gets one part in this many of the policy's delta
_EXAMPLE = 'epsilon = 4.0, delta = 1e-5 and ledger = "ledger.sqlite"'


@dataclass(frozen=True)
class Payment:
    """``epsilon`` at ``delta``, from the budget of the policy in file ``named``; its ledger may lie in ``state``."""

    epsilon: float
    delta: float
    policy: Policy
    named: Path
    state: Path | None

    @classmethod
    def of(cls, epsilon: float, delta: float | None, policy: Path | None, state: Path | None) -> Self:
        """Read the command's options; raise ConfigError if they name no budget or no ledger."""
        if policy is None:
            raise ConfigError(
                "a draft from private records is charged to the budget of these records; write a policy file with the lines "
                f"{_EXAMPLE} (the most that may ever be spent, and where the ledger lies), and name it with --policy policy.toml"
            )
        found = Policy.read(policy)
        if found.epsilon is None or found.delta is None:
            raise ConfigError(f"the policy {policy} has no epsilon and delta, so nothing may be spent; add both")
        if found.ledger is None and state is None:
            raise ConfigError(
                f'the policy {policy} names no ledger; add ledger = "ledger.sqlite" to it, or give the folder that '
                "`crescendo join` uses with --state DIR"
            )
        return cls(epsilon, found.delta / _SHARE if delta is None else delta, found, policy, state)

    def buy(self, table: Path, request: DraftRequest) -> BoughtSchema:
        """Draft the schema of private records for this price, or find the draft already paid for."""
        request = replace(request, epsilon=self.epsilon, delta=self.delta)
        return BoughtSchema(table, charged_draft(table, request, self.policy, self.state), request)
