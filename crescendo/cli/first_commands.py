"""Commands for newcomers: `new` and `doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json
from crescendo.cli.drafting_flags import Delta, Kinds, PolicyFile, Ranges, Records, StateFolder, Values
from crescendo.errors import ConfigError

if TYPE_CHECKING:
    from crescendo.drafter.payment import Payment
    from crescendo.projects.stated import Stated

commands = typer.Typer(rich_markup_mode=None)
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
_NOTES = 12  # lines about a table


@commands.command("new", epilog="Example: crescendo new mine")
def _new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make; its name is the project's.")],
    torch: Annotated[bool, typer.Option("--torch", help="Use a torch module in place of a numpy model.")] = False,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Use your own table: csv, tsv or Parquet.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The table's label column; by default the last.")
    ] = None,
    ranges: Ranges = None,
    values: Values = None,
    kinds: Kinds = None,
    records: Records = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="State all columns by a schema file, in place of --range and --values."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Draft unstated columns by noisy counts, and charge this epsilon to the records' ledger."),
    ] = None,
    delta: Delta = None,
    policy: PolicyFile = None,
    state: StateFolder = None,
    as_json: AsJson = False,
) -> None:
    """Make a project: a commented run file, a private one, a model, a policy and a README. All of it runs as it is."""
    with one_sentence():
        if torch and table is not None:
            raise ConfigError("--torch and --csv are two kinds of projects; choose one of them")
        if table is None and any(one is not None for one in (label, ranges, values, kinds, records, schema, epsilon)):
            raise ConfigError(
                "--label, --range, --values, --kind, --records, --schema and --epsilon describe the table that --csv names; "
                "give --csv, too"
            )
        if epsilon is None and any(one is not None for one in (delta, policy, state)):
            raise ConfigError("--delta, --policy and --state are for a draft that --epsilon buys; give --epsilon, too")
        if table is not None:
            from crescendo.projects.stated import Stated
            from crescendo.projects.table_project import table_project

            payment = None if epsilon is None else _payment(epsilon, delta, policy, state)

            def stating(header: list[str], label: str) -> Stated:
                if (ranges or values or kinds or records or schema or epsilon) is None and not as_json and _asks():
                    return _asked(header, label)
                return Stated.of(header, ranges or (), values or (), records, schema, kinds or ())

            made = table_project(name, table, label, stating, payment)
        else:
            from crescendo.projects.project import new_project

            made = new_project(name, torch=torch)
        if as_json:
            files, then = list(made.names), list(made.next_commands())
            facts = {"folder": str(made.folder), "files": files, "notes": list(made.notes), "next": then}
            paid = None if made.bought is None else made.bought.to_json()
            print_json({**facts, "looked_at": list(made.looked_at), "bought": paid})
            return
        for note in made.notes[:_NOTES]:
            typer.echo(f"Note: {note}.")
        if len(made.notes) > _NOTES:
            typer.echo(f"Note: {len(made.notes) - _NOTES} more columns are left out; run.toml names them.")
        if made.looked_at:
            typer.echo(f"Note: {_drafted(made.looked_at)}.")
        if made.bought is not None:
            for sentence in made.bought.sentences(None):
                typer.echo(f"Private run: {sentence}.")
        typer.echo(f"made {made.folder} with {', '.join(made.names)}; next, run")
        for command in made.next_commands():
            typer.echo(f"  {command}")


def _payment(epsilon: float, delta: float | None, policy: Path | None, state: Path | None) -> Payment:
    from crescendo.drafter.payment import Payment

    return Payment.of(epsilon, delta, policy, state)


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(header: list[str], label: str) -> Stated:
    """Ask for the public facts about the table. Without answers its private run is drafted and states no epsilon."""
    from crescendo.projects.stated import Stated

    typer.echo(
        f"A private run publishes the range or values of its columns: {len(header) + 1} questions, answered without looking."
    )
    if not typer.confirm("Answer them now?", default=True):
        return Stated()
    typer.echo("An empty answer leaves a column out of the private run. The label comes last.")
    return Stated.asked(header, label, lambda question: str(typer.prompt(question, default="", show_default=False)))


def _drafted(looked_at: Sequence[str]) -> str:
    return (
        f"{len(looked_at)} entries of the private run were read off the table, so it states no epsilon: edit the marked lines "
        "of private.toml and schema.toml, or make the project with --range, --values and --records, or with --epsilon"
    )


@commands.command(
    "doctor", epilog="Example: crescendo doctor\n\nFor a table: crescendo doctor patients.csv --label died"
)
def _doctor(
    table: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A table to check in place of this machine.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The table's label column; by default the last.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine: Python, packages, folders, disk, limits, port, clock. Exit code 1 if something is bad.

    With FILE, check a table: the features that each column becomes, and mistakes that would silently spoil a model, with the
    words for the schema that mend them.
    """
    with one_sentence():
        if table is not None:
            _doctor_of_a_table(table, label, as_json)
            return
        if label is not None:
            raise ConfigError("--label names a column of a table; name its file, as in crescendo doctor mine.csv")
        from crescendo.cli.checkup import checkup

        found = list(checkup())
        bad = [check for check in found if check.state == "bad"]
        if as_json:
            print_json({"sound": not bad, "checks": [check.to_json() for check in found]})
        else:
            wide = max(len(check.name) for check in found)
            for check in found:
                typer.echo(f"{MARKS[check.state]}  {check.name:<{wide}}  {check.says}")
            typer.echo(f"{len(bad)} of {len(found)} checks are bad" if bad else "all checks passed")
        if bad:
            raise typer.Exit(1)


def _doctor_of_a_table(path: Path, label: str | None, as_json: bool) -> None:
    from crescendo.data.tables.doctor.checked_table import CheckedTable

    found = CheckedTable.of(path, label)
    if as_json:
        print_json({"table": found.source, "notes": found.notes, "checks": [line.to_json() for line in found.lines]})
        return
    wide = min(24, max(len(line.name) for line in found.lines))
    for line in found.lines:
        typer.echo(_printable(f"{MARKS['ok' if line.well else 'note']}  {line.name:<{wide}}  {line.says}"))
    if found.notes:
        typer.echo(
            f"{found.notes} to note. `crescendo data schema` writes a schema with a line for each column; add these words there. "
            "Every record was looked at: put into the schema of a private run only facts that you knew without looking."
        )
    else:
        typer.echo("Nothing to note.")


def _printable(text: str) -> str:
    """Return the text with spaces for control characters: a table's cells must not control the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
