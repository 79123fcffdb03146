"""Opening of a data set's ledger: a budget is set once, and a file with another budget is refused."""

from pathlib import Path

from crescendo import system
from crescendo.errors import DataError, Refused
from crescendo.storage.ledger.ledger_entries import budget_body
from crescendo.storage.ledger.ledger_file import LedgerFile
from crescendo.storage.ledger.ledger_store import Ledger
from crescendo_dp.ledger.budget import Budget


def open_ledger(
    path: str | Path, budget: Budget | None = None, *, dataset: str = "", read_only: bool = False
) -> Ledger:
    """Open the ledger at ``path``, or begin one if there is none and a budget is given.

    The budget and the name of the data set are set once: they can be corrected until the first sign-off; after that a
    ledger with other values is refused. One process at a time may open a ledger; with ``read_only`` other processes
    may read it.
    """
    path = Path(path)
    file = LedgerFile(path, create=budget is not None and not read_only, read_only=read_only)
    try:
        if not file.entries:
            if budget is None or read_only:
                what = "nothing was spent" if read_only else "give a budget to begin it"
                raise DataError(f"the ledger {path} was never begun; {what}")
            file.append("budget", budget_body(budget, dataset, instance=system.urandom(16).hex()))
        ledger = Ledger(file)
        if budget is not None and not read_only:
            ledger.correct(budget, dataset)
        _check_asked(ledger, path, budget, dataset)
        return ledger
    except BaseException:
        file.close()
        raise


def _check_asked(ledger: Ledger, path: Path, budget: Budget | None, dataset: str) -> None:
    if budget is not None and budget != ledger.budget:
        raise Refused(
            f"the ledger {path} was begun with {_worded(ledger.budget)}, but {_worded(budget)} is asked for; "
            f"a data set's budget is set once: keep the original numbers, or use a new ledger for other records"
        )
    if dataset and dataset != ledger.dataset:
        raise Refused(f"the ledger {path} belongs to data set {ledger.dataset!r}, not {dataset!r}; use its own")


def _worded(budget: Budget) -> str:
    split = "" if budget.split == Budget.split else f" and split {budget.split:g}"
    return f"epsilon {budget.epsilon:g} at delta {budget.delta:g}{split}"
