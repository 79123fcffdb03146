"""The `account --close` command: the owner of the records takes back the unsent part of a federation's promise."""

import difflib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crescendo.errors import UsageError
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.ledger.book import Price, tight


@dataclass(frozen=True)
class _Closed:
    """A federation that can never be charged again, with the ledger's summary before and after."""

    federation: str
    charged: int
    rounds: int
    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def says(self) -> str:
        """The sentence that states the returned budget, and the reason for the rest."""
        closed = f"{self.federation!r} is closed for good"
        if not self.charged:
            return f"{closed}; nothing was charged, so its whole promise is free again"
        sent = f"{self.charged:,} of its {self.rounds:,} rounds were charged and stay spent"
        if self._left(self.after) > self._left(self.before):
            return f"{closed}; {sent}, and the others are free again, counted by the ledger's Renyi order"
        return f"{closed}; {sent}, and so does its promise where federations are added up by (epsilon, delta)"

    def to_json(self) -> dict[str, Any]:
        left = {"left_before": self.before["left"], "left": self.after["left"]}
        return {"closed": self.federation, "charged": self.charged, "rounds": self.rounds, **left, "says": self.says}

    @staticmethod
    def _left(summary: dict[str, Any]) -> float:
        epsilon = summary["left"]["epsilon"]
        return float("inf") if epsilon is None else float(epsilon)


def close_federation(path: Path, federation: str, price: Price = tight) -> _Closed:
    """Close a federation in the ledger at ``path``; raise UsageError if it is not open."""
    price = functools.cache(price)
    with open_ledger(path) as ledger:
        before = ledger.summary(price)
        known = {one["federation"]: one for one in before["federations"]}
        if federation not in known:
            near = difflib.get_close_matches(federation, list(known), 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(map(repr, known)) or 'none'}"
            raise UsageError(f"the ledger {path} has no federation {federation!r}; {hint}")
        one = known[federation]
        if one["closed"]:
            raise UsageError(f"federation {federation!r} is already closed, and its unspent promise was returned")
        ledger.close_federation(federation, withdrawn=True)
        return _Closed(federation, one["charged"], one["rounds"], before, ledger.summary(price))
