"""Printer of `account --registry`."""

from typing import Any

from rich.text import Text

from crescendo.cli.show.show_privacy import WIDEST, number
from crescendo.cli.terminal import Printer, new_table
from crescendo.logs.peer_text import cleaned

_STATES = {
    "gone": "missing: the epsilon spent is unknown",
    "unreadable": "cannot be read",
    "not begun": "not begun; registered as other records",
}


class RegistryPrinter(Printer):
    """Prints the registry as a table."""

    def registry(self, known: dict[str, Any]) -> None:
        """Print each data set used on this machine, its ledger and its budget."""
        self.say(f"registry {known['registry']}")
        if not known["ledgers"]:
            self.say("no ledger has been used on this machine yet")
            return
        table = new_table("Data sets", "ledger", "records", "epsilon", "spent", "left", names=("data set",))
        for one in known["ledgers"]:
            records = "" if one["different_records"] is None else f"{one['different_records']:,}"
            numbers = records, number(one["epsilon"]), number(one["spent"]), number(one["left"])
            gone = _STATES.get(one["state"])
            name = cleaned(one["dataset"]) or "without a name"
            table.add_row(Text(name), Text(one["ledger"] + (f" ({gone})" if gone else "")), *numbers)
        self.width = max(self.width, self.measure(table, options=self.options.update(max_width=WIDEST)).minimum)
        self.print(table)
        self.say(
            "records: the approximate number of different ones; spent: by the rounds sent; left: for the next federations"
        )
