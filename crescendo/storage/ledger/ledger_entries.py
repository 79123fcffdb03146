"""The ledger's numbers as plain data, for its file and for summaries. None stands for infinity, which JSON lacks."""

import math
from dataclasses import asdict, fields
from typing import Any

from crescendo_dp.ledger.book import Account, Book, Price, Promise
from crescendo_dp.ledger.budget import Budget, Orders
from crescendo_dp.planned_events import PlannedEvents


def budget_body(budget: Budget, dataset: str, instance: str) -> dict[str, Any]:
    """Return the body of a ledger's first entry."""
    return {**asdict(budget), "epsilon": _plain(budget.epsilon), "dataset": dataset, "instance": instance}


def budget_of(body: dict[str, Any]) -> Budget:
    """Read a body written by `budget_body`."""
    return Budget(_number(body["epsilon"]), body["delta"], body["split"])


def promise_body(promise: Promise) -> dict[str, Any]:
    """Return the body of a sign-off, with the rate and sigma of every round."""
    return {
        "federation": promise.federation,
        "terms": promise.terms,
        "client": promise.client,
        "plan": promise.plan.to_json(),
        "delta": promise.delta,
        "epsilon": _plain(promise.epsilon),
        "divergence": _plain(promise.divergence),
        "orders": None if promise.orders is None else asdict(promise.orders),
        "failure": promise.failure,
    }


def promise_of(body: dict[str, Any]) -> Promise:
    """Read a body written by `promise_body`."""
    plan = PlannedEvents.from_json(body["plan"])
    orders = None if body["orders"] is None else Orders(**body["orders"])
    known = {
        field.name: body[field.name] for field in fields(Promise) if field.name in body
    }  # older bodies have fewer fields
    numbers = {name: _number(body[name]) for name in ("epsilon", "divergence")}
    return Promise(**{**known, **numbers, "plan": plan, "orders": orders})


def summary_body(book: Book, price: Price) -> dict[str, Any]:
    """Return the amounts promised, spent and left, in total and per federation."""
    promised, spent = book.promised(), book.spent(price)
    return {
        **asdict(book.budget),
        "epsilon": _plain(book.budget.epsilon),
        "promised": {"epsilon": _plain(promised.epsilon), "delta": promised.delta, "way": promised.way},
        "spent": {"epsilon": _plain(spent.epsilon), "delta": spent.delta, "way": spent.way},
        "left": {"epsilon": _plain(promised.left), "delta": promised.delta_left},
        "orders": None if book.orders is None else asdict(book.orders),
        "federations": [_account_body(account, book, price) for account in book.accounts.values()],
    }


def _account_body(account: Account, book: Book, price: Price) -> dict[str, Any]:
    promise = account.promise
    return {
        "federation": promise.federation,
        "client": promise.client,
        "terms": promise.terms,
        "rounds": len(promise.plan),
        "charged": len(account.charged),
        "last_round": account.last,
        "closed": account.closed,
        "returned": account.returned,
        "delta": promise.delta,
        "promised": _plain(promise.epsilon),
        "spent": _plain(book.spent_on(account, price)),
    }


def _plain(value: float) -> float | None:
    return None if value == math.inf else value


def _number(value: float | None) -> float:
    return math.inf if value is None else value
