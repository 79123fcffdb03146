"""Differential privacy: plan a budget, account for a history of releases, audit a mechanism.

account     the epsilon of a history of events           plan     sizes, rounds and noise for a budget
audit       a lower bound on a callable's epsilon        events   releases, as plain data

accounting    the tight accountant               ledger       the arithmetic of a shared budget
planning      the search for a schedule          meaning      odds, attacks, mu of Gaussian DP, rho of zCDP
black_box     the audit of any callable          paper        the paper's theorems and its parameter selection
interchange   histories of dp-accounting and Opacus

Only numpy and scipy are needed, and both load on first use.
"""

from __future__ import annotations

from crescendo_dp.errors import ConfigError, CrescendoError, DataError, Refused, UsageError

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from typing import Any

    from crescendo_dp.accounting.epsilon import Spent, account
    from crescendo_dp.black_box.attack import BlackBoxReport
    from crescendo_dp.black_box.audit import audit
    from crescendo_dp.events import Event, PoissonGaussian, from_json, tally, to_json
    from crescendo_dp.ledger.book import Book
    from crescendo_dp.ledger.budget import Budget
    from crescendo_dp.meaning.odds_and_attacks import Meaning
    from crescendo_dp.planning.budget_to_schedule import plan
    from crescendo_dp.planning.schedule import Plan

__version__ = "0.1.0"
__all__ = [
    "BlackBoxReport",
    "Book",
    "Budget",
    "ConfigError",
    "CrescendoError",
    "DataError",
    "Event",
    "Meaning",
    "Plan",
    "PoissonGaussian",
    "Refused",
    "Spent",
    "UsageError",
    "account",
    "audit",
    "from_json",
    "plan",
    "tally",
    "to_json",
]

_HOME = {
    "BlackBoxReport": "black_box.attack",
    "Book": "ledger.book",
    "Budget": "ledger.budget",
    "Event": "events",
    "Meaning": "meaning.odds_and_attacks",
    "Plan": "planning.schedule",
    "PoissonGaussian": "events",
    "Spent": "accounting.epsilon",
    "account": "accounting.epsilon",
    "audit": "black_box.audit",
    "from_json": "events",
    "plan": "planning.budget_to_schedule",
    "tally": "events",
    "to_json": "events",
}


def __dir__() -> list[str]:
    """Return every public name, loaded or not."""
    return sorted({name for name in globals() if name.startswith("__")} | set(__all__))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crescendo_dp' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"crescendo_dp.{_HOME[name]}"), name)
    globals()[name] = found
    return found
