"""Printers of `account` and `audit`, and the number format that the others share."""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from crescendo.audit import Report, Row
from crescendo.cli.forecast import Forecast, on_stderr
from crescendo.cli.terminal import Printer, new_table, progress_bar
from crescendo.logs.peer_text import cleaned
from crescendo.runs.added_runs import SAYS, AddedRuns
from crescendo.runs.statements import SAYS_OF_EVENTS, ClientAccount, EventsStatement, Statement
from crescendo_dp.accounting.epsilon import Progress
from crescendo_dp.meaning.odds_and_attacks import Meaning

MOST_CLIENTS = 20
WIDEST = 1000  # of a table
TITLES = {
    None: "What each client would spend in a real federation",
    True: "What each client would have spent in a real federation",
    False: "What each client spends",
}
THEOREMS = {"thm1": "Theorem 1", "thmmain": "main theorem", "thm-mainp": "main theorem"}


@contextlib.contextmanager
def progress(doing: str) -> Iterator[Progress]:
    """Show a progress bar for an accountant."""
    with progress_bar() as bar:
        task = bar.add_task(doing, total=None)
        forecast = Forecast(on_stderr(bar), "this", "its first part")

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            forecast.heard(done, total)

        yield progress


def number(value: float | None) -> str:
    """
    >>> number(0.99949), number(1563.0), number(None), number(math.inf)
    ('0.9995', '1,563', '', 'infinite')
    """
    if value is None:
        return ""
    return "infinite" if value == math.inf else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _account_row(client: ClientAccount) -> list[str | Text]:
    spent = client.spent
    proved = [number(verdict.epsilon) if verdict.applies else "none" for verdict in client.theorems] or ["", ""]
    way = spent.method.upper() if spent.method != "none" else "none"
    numbers = [f"{client.records:,}", f"{client.rounds:,}", number(spent.epsilon), way, number(spent.rdp_epsilon)]
    return [Text(client.name), *numbers, *proved]


def _sentences(clients: list[ClientAccount]) -> list[str]:
    """Return sentences on how the first client's epsilon was found, and on the clients to which a theorem does not apply."""
    first = clients[0]
    found = [f"epsilon of {first.name} is {first.spent.why}"]
    silent: dict[tuple[str, str], list[str]] = {}
    for client in clients:
        for verdict in client.theorems:
            if not verdict.applies:
                silent.setdefault((THEOREMS[verdict.theorem], verdict.why), []).append(client.name)
    for (theorem, why), names in silent.items():
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        found.append(f"the paper's {theorem}, for {', '.join(names[:3])}{more}, {why}")
    return found


def _deltas(summary: dict[str, Any]) -> str:
    """Return a sentence on the delta of each epsilon of a ledger."""
    orders = summary["orders"]
    aside = f" and less {orders['delta']:g}, reserved for composing federations" if orders is not None else ""
    return (
        "the totals spent and promised hold at the budget's delta, and each federation's at the delta of its terms; the delta "
        f"left is the budget's less theirs{aside}"
    )


def _checks(rows: tuple[Row, ...]) -> Table:
    """Return a table with a line for each check: its p-value for every source of randomness, or whether an exact check holds."""
    sources = list(dict.fromkeys(row.source for row in rows if row.source is not None))
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    table = new_table("Checks: p-values, by source of randomness", "check", *sources)
    table.add_column("looks for")
    for name, same in by_name.items():
        told = {row.source: _told(row) for row in same}
        cells = [told.get(source, told.get(None, "") if place == 0 else "") for place, source in enumerate(sources)]
        table.add_row(name, *cells, same[0].looks_for)
    return table


def _about_shift(found: Report) -> str:
    """Return a comment on the estimated shift. An estimate above 1 alone proves nothing: half of all estimates are too high."""
    says = f"an estimate through the noise, standard error {found.shift_error:.2g}; a sound mechanism's true value is at most 1"
    if found.passed and found.shift_ratio > 1 and found.shift_error > 0:
        says += (
            f", and {(found.shift_ratio - 1) / found.shift_error:.1f} standard errors above 1 do not contradict that"
        )
    return says


def _told(row: Row) -> str:
    if not row.passed:
        return "FAILED" if row.p is None else f"FAILED {row.p:.0e}"
    return "holds" if row.p is None else f"{row.p:.3f}"


class PrivacyPrinter(Printer):
    """Prints privacy costs and the findings of audits."""

    def meaning(self, client: str, found: Meaning | None) -> None:
        """Print the meaning of the epsilon of the client that spends most."""
        if found is None:
            return
        self.print(Text(f"What that means for {client}, which spends most:"), soft_wrap=True)
        for sentence in found.sentences():
            self.say(sentence)

    def cautions(self, found: Iterable[str]) -> None:
        for sentence in found:
            self.say(f"caution: {sentence}")

    def statement(self, found: Statement) -> None:
        """Print a row for each client, those that spend most first, and the reasons why a theorem does not apply."""
        if not found.clients:
            self.print(Text(f"{found.what}: {found.says}."), soft_wrap=True)  # a path keeps its letters
            return
        head = [f"{found.what}: {found.mechanism}", f"delta {found.delta:g}", f"sigma {found.sigma:g}"]
        head += [] if found.stated is None else [f"epsilon {found.stated:g} stated"]
        self.print(Text(", ".join([*head, *(["simulated"] if found.simulated else [])])), soft_wrap=True)
        names = ("client", "records", "rounds", "epsilon", "by", "RDP", "Thm 1", "main thm")
        table = new_table(TITLES[found.simulated], *names)
        shown = sorted(found.clients, key=lambda client: client.spent.epsilon, reverse=True)
        for client in shown[:MOST_CLIENTS]:
            table.add_row(*_account_row(client))
        self.print(table)
        if len(shown) > MOST_CLIENTS:
            self.say(f"and {len(shown) - MOST_CLIENTS:,} clients that spend no more; --json has all of them")
        for sentence in _sentences(shown):
            self.say(sentence)
        self.meaning(shown[0].name, found.meaning())
        self.say(found.says)
        self.cautions(found.cautions)

    def added(self, found: AddedRuns) -> None:
        """Print the cost of several runs together, the clients that spend most first."""
        for one in found.runs:
            self.print(Text(f"{one.what}: epsilon {number(one.epsilon)} at delta {one.delta:g}"), soft_wrap=True)
        table = new_table("What they cost together", "runs", "delta", "added up", "together", left=0, names=("client",))
        for client in found.clients[:MOST_CLIENTS]:
            costs = f"{client.delta:g}", number(client.added), number(client.together.epsilon)
            table.add_row(Text(client.name), f"{client.runs}", *costs)
        self.print(table)
        if len(found.clients) > MOST_CLIENTS:
            self.say(f"and {len(found.clients) - MOST_CLIENTS:,} clients that spend no more; --json has all of them")
        self.say(SAYS)
        self.meaning(found.clients[0].name, found.meaning())

    def events(self, found: EventsStatement) -> None:
        """Print the cost of other libraries' events, and its conditions."""
        spent = found.spent
        self.print(Text(f"{found.what}: {found.found.format} events, delta {spent.delta:g}"), soft_wrap=True)
        table = new_table("What they cost together", "releases", "distinct", "epsilon", "by", "RDP", left=0)
        counts = f"{found.found.releases:,}", f"{len(found.found.events):,}"
        table.add_row(*counts, number(spent.epsilon), spent.method.upper(), number(spent.rdp_epsilon))
        self.print(table)
        self.say(f"epsilon is {spent.why}")
        self.say(SAYS_OF_EVENTS)

    def ledger(self, summary: dict[str, Any]) -> None:
        """Print a data set's budget, and the share of each federation."""

        def epsilon(value: float | None) -> str:  # a ledger's None is an infinite epsilon
            return number(math.inf if value is None else value)

        name = summary["dataset"] or "a data set without a name"
        parts = {
            "budget": (summary, "set once"),
            "spent": (summary["spent"], "by the rounds sent"),
            "promised": (summary["promised"], "to the federations signed off"),
            "left": (summary["left"], "for the next federations"),
        }
        rows = [(what, epsilon(part["epsilon"]), f"{part['delta']:g}", says) for what, (part, says) in parts.items()]
        self.facts(f"Ledger of {name}", rows, "epsilon", "delta")
        if not summary["federations"]:
            self.say("no federation has been signed off yet")
            return
        columns = ("sent", "rounds", "spent", "promised", "delta", "state")
        table = new_table("Federations", *columns, left=0, names=("federation", "client"))
        table.columns[0].no_wrap = True  # users copy it into other commands; a narrow terminal wraps the line instead
        for one in summary["federations"]:
            counts = f"{one['charged']:,}", f"{one['rounds']:,}"
            costs = epsilon(one["spent"]), epsilon(one["promised"]), f"{one['delta']:g}"
            table.add_row(
                Text(cleaned(one["federation"])),
                Text(cleaned(one["client"])),
                *counts,
                *costs,
                "closed" if one["closed"] else "open",
            )
        needed = self.measure(table, options=self.options.update(max_width=WIDEST)).minimum
        self.width = max(self.width, needed)
        self.print(table)
        self.say(_deltas(summary))

    def closed(self, says: str, summary: dict[str, Any]) -> None:
        """Print the ledger after closing a federation, and the amount freed."""
        self.ledger(summary)
        self.say(says)

    def audited(self, found: Report) -> None:
        """Print the claim, the measurements and the verdict."""
        sure = f"with {found.confidence:.0%} confidence"
        rows = [
            ("claimed epsilon", number(found.claimed), f"at delta {found.delta:g}: an upper bound"),
            ("lower bound, from shifts", number(found.lower_shift), f"{sure}, if the noise is Gaussian as measured"),
        ]
        if found.lower_threshold is not None:
            says = f"{sure}, from two rounds that may cost {number(found.claimed_attacked)}"
            rows.append(("lower bound, from thresholds", number(found.lower_threshold), says))
        rows += [
            (
                "worst sensitivity ratio",
                f"{found.worst_ratio:.5f}",
                f"of {found.tries:,} attacks without noise; at most 1",
            ),
            (
                "measured / certified noise",
                f"{found.noise_ratio:.4f}",
                f"of {found.numbers:,} numbers; 1 but for chance",
            ),
            (
                "measured / certified shift",
                f"{found.shift_ratio:.4f}",
                _about_shift(found),
            ),
            ("carried to the next round", f"{found.carried_ratio:.1e}", "besides what was sent; about 0"),
        ]
        self.facts(f"Audit of {found.mechanism}, {found.name or f'client {found.client}'}", rows)
        if found.checks:
            self.print(_checks(found.checks))
        for finding in found.findings:
            self.say(f"{finding.kind}: {finding.says}")
        alarms = f"a sound mechanism fails fewer than one audit in {1 / found.false_alarms:,.0f}"
        says = f"passed: no attack contradicts the claim; {alarms}"
        self.say(says if found.passed else f"failed: do not trust this epsilon; {alarms}")
