"""Printer of `plan`: the plan, the family it was chosen from, constant sizes, and the reasons."""

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from crescendo.cli.show.show_privacy import number
from crescendo.cli.terminal import Printer, new_table
from crescendo_dp.planning.schedule import Plan
from crescendo_dp.planning.sigmas import Sigmas


def plan(found: Plan, asked: float, written: Path | None) -> None:
    """Print the plan, the family it was chosen from, constant sizes, notes and cautions."""
    console = Printer()
    _summary(console, found, asked)
    console.print(_family(found))
    console.print(_curve(found))
    why = found.compared_to["paper"].get("why")
    for note in (*([why] if why else []), *found.notes):
        console.say(note)
    for sentence in found.meaning().sentences():
        console.say(sentence)
    for sentence in found.cautions():
        console.say(f"caution: {sentence}")
    if written is not None:
        console.print(Text(f"Written: {written}"), soft_wrap=True)


def _summary(console: Printer, found: Plan, asked: float) -> None:
    sizes, summed = found.sizes, "sqrt(rounds) sigma" if found.sigma.rounds is None else "over all rounds"
    share = max(size for size, _ in found.staircase) / found.records
    rows = (
        ("epsilon", number(found.epsilon), f"at delta {found.delta:g}; {asked:g} was asked for"),
        ("rounds", f"{found.rounds:,}", f"for {found.gradients:,} gradients"),
        ("sizes", _span(sizes.first, sizes.last), str(sizes)),
        ("largest share", f"{share:.3g}", "of the records in one round"),
        ("sigma", _sigma(found.sigma), "of a round, over what a record can change"),
        ("aggregated noise", number(found.aggregated_noise), summed),
    )
    console.facts(f"A plan for one client of {found.records:,} records, by the {found.method} method", rows)


def _family(found: Plan) -> Table:
    names = ("schedule", "rounds", "sizes", "sigma", "noise", "more")
    table = new_table("The family under the same budget; noise is over all rounds", *names)
    for one in found.family:
        more = "chosen" if one.chosen else _more(one.aggregated_noise / found.aggregated_noise)
        sizes = f"{one.first:,}" if one.shape == "constant" else _span(one.first, one.last)
        table.add_row(one.name, f"{one.rounds:,}", sizes, _sigma(one.sigma), number(one.aggregated_noise), more)
    paper: dict[str, Any] = found.compared_to["paper"]
    if "why" not in paper and found.method != "paper":
        more = _more(paper["aggregated_noise"] / found.aggregated_noise)
        numbers = number(paper["sigma"]), number(paper["aggregated_noise"]), more
        table.add_row("the paper's recipe", f"{paper['rounds']:,}", f"from {found.sizes.first:,}", *numbers)
    return table


def _curve(found: Plan) -> Table:
    names = ("size", "share", "rounds", "sigma", "aggregated noise")
    table = new_table("Constant sizes under the same budget", *names, left=0)
    for point in found.curve:
        noise = number(point.sigma), number(point.aggregated_noise)
        table.add_row(f"{point.size:,}", f"{point.share:.3g}", f"{point.rounds:,}", *noise)
    return table


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _sigma(sigma: Sigmas) -> str:
    return f"{sigma:.4g}" if sigma.rounds is None else f"{sigma:.3g}"


def _more(ratio: float) -> str:
    """
    >>> _more(1.0123), _more(3.5), _more(0.999)
    ('+1.2%', '+250%', '-0.1%')
    """
    return f"{100 * (ratio - 1):+.1f}%" if ratio < 2 else f"{100 * (ratio - 1):+.0f}%"
