"""Bought draft of a table project: noisy counts, charged to the ledger, replace the parts that a person did not state.

A paid draft is public, so it counts like a person's statements. The private files are made from the draft, the statements and the
header line alone.
"""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from crescendo.data.tables.stated_columns import PublicRange, Statement
from crescendo.drafter.bought_schema import BoughtSchema
from crescendo.drafter.draft_request import DraftRequest
from crescendo.drafter.payment import Payment
from crescendo.errors import ConfigError, DataError
from crescendo.projects.private_table import EPSILON, PrivateTable
from crescendo.projects.stated import Stated

_MECHANISM = "minibatch"
_LEAST = 0.01  # the least epsilon for a run; noise drowns a run with less


@dataclass(frozen=True)
class BoughtTable:
    """A draft bought for a project."""

    made: BoughtSchema
    payment: Payment
    label: str

    @classmethod
    def of(cls, table: Path, label: str, stated: Stated, payment: Payment, project: str) -> BoughtTable:
        """Pay for the parts that are not stated. Refuse before paying if the policy would not let the project train."""
        _check_policy(payment, project)
        if stated.schema is not None:
            raise ConfigError(
                "--schema defines all columns, and --epsilon buys their definition; leave one of them out"
            )
        request = DraftRequest(
            payment.epsilon, payment.delta, label, stated.columns, records=stated.records, kinds=stated.kinds
        )
        found = cls(payment.buy(table, request), payment, label)
        found.made.found.draft.usable(table.name)
        if found._labels is None:
            raise DataError(
                f"the labels of {table.name} are not distinguishable from the noise. The draft is paid for and kept: the command "
                f"`crescendo data schema` with the same options and --out bought.toml writes it at no further cost; then make "
                f"the project with --schema bought.toml and state the labels with --range or --values of '{label:.60}'"
            )
        return found

    @property
    def stated(self) -> Stated:
        """The draft as statements about the table."""
        assert self._labels is not None
        return Stated({self.label: self._labels}, max(2, self.made.found.draft.records), self.made.schema)

    @property
    def _labels(self) -> Statement | None:
        classes, span = self.made.found.draft.classes, self.made.label_range
        if classes is not None:
            return tuple(map(str, classes))
        return None if span is None else PublicRange(*span)

    def within_budget(self, private: PrivateTable) -> PrivateTable:
        """Return the terms with an epsilon and a delta that the ledger has left, or unchanged if it has too little."""
        (epsilon, delta), policy = self.made.found.left, self.payment.policy
        epsilon, delta = min(EPSILON, epsilon, policy.max_epsilon or math.inf), min(delta, policy.max_delta or 1.0)
        if epsilon < _LEAST or not delta:
            return private
        return replace(private, epsilon=math.floor(epsilon * 100) / 100, most_delta=delta)

    def values(self, folder: Path) -> dict[str, str]:
        """Return the template values that differ from those of a stated project."""
        records = self.stated.records
        alone = f"--set clients.count=1 --set 'serve.names=[\"alice\"]' --set privacy.records={records} "
        own = {"schema": self.made.text, "provenance": _BOUGHT, "paid": self._paid(folder)}
        return {**own, "dealing": _ALONE, "terminals": "Two", "alone": alone, "count_says": _SHARED}

    def _paid(self, folder: Path) -> str:
        certificate, found = self.made.found.draft.certificate, self.made.found
        ledger = shlex.quote(os.path.relpath(found.ledger.resolve(), folder.resolve()))
        return (
            f"## Cost of the draft\n\nThe ranges, categories and numbers of `schema.toml` and `private.toml` that you did not "
            f"state were bought from the records by noisy counts, for epsilon {certificate.epsilon:g} at delta "
            f"{certificate.delta:g}. They are public from now on. The ledger has them as `{found.entry}`; {self.made.left}. To "
            f"see the ledger:\n\n"
            f"```\ncrescendo account --ledger {ledger}\n```\n\n"
        )

    def join(self, folder: Path, table: str) -> str:
        """Return the options of `crescendo join` for these records, as typed in the project's folder."""
        state = "alice" if self.payment.state is None else _from(folder, self.payment.state)
        return f"--state {state} --policy {_from(folder, self.payment.named)} --data {shlex.quote(table)}"


def _check_policy(payment: Payment, project: str) -> None:
    policy, name = payment.policy, payment.named
    assert policy.epsilon is not None
    if _MECHANISM not in policy.mechanisms:
        raise ConfigError(
            f'the policy {name} does not allow the project\'s mechanism; add "{_MECHANISM}" to its mechanisms'
        )
    if policy.federations is not None and project not in policy.federations:
        raise ConfigError(
            f"the policy {name} does not allow a federation named {project!r}, like the project; add it to its federations"
        )
    if payment.epsilon >= policy.epsilon:
        raise ConfigError(
            f"a draft at epsilon {payment.epsilon:g} would use up the epsilon {policy.epsilon:g} in {name} before training; "
            "ask for less with --epsilon"
        )


def _from(folder: Path, path: Path) -> str:
    return shlex.quote(os.path.relpath(path.resolve(), folder.resolve()))


_SHARED = "a simulation deals the records out to so many clients"
_ALONE = """\
These records have one budget and one ledger, so the table belongs to one client. For a trial that client is alone; for a
federation put the clients' names and their number into `private.toml`: each client has a file, a policy and a ledger, and
declares its records.

"""
_BOUGHT = """\
# This file and schema.toml are public. A person stated their contents, or a draft released them and was charged to the ledger
# (the top of schema.toml has its epsilon): nothing else in them depends on the records."""
