"""The commands of a first hour: `new` and `doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json
from crescendo.errors import ConfigError

commands = typer.Typer(rich_markup_mode=None)
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
_NOTES = 12  # lines about a table


@commands.command("new", epilog="Example: crescendo new mine")
def _new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make; its name is the project's.")],
    torch: Annotated[bool, typer.Option("--torch", help="With a torch module in place of a model in numpy.")] = False,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="For a table of your own: csv, tsv or Parquet.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The table's label column; by default the last.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a project: a commented run file, a private one, a model, a policy and a README. All of it runs as it is."""
    with one_sentence():
        if torch and table is not None:
            raise ConfigError("--torch and --csv are two kinds of projects; choose one of them")
        if label is not None and table is None:
            raise ConfigError("--label names a column of the table that --csv names; give both")
        if table is not None:
            from crescendo.projects.table_project import table_project

            made = table_project(name, table, label)
        else:
            from crescendo.projects.project import new_project

            made = new_project(name, torch=torch)
        if as_json:
            files, then = list(made.names), list(made.next_commands())
            print_json({"folder": str(made.folder), "files": files, "notes": list(made.notes), "next": then})
            return
        for note in made.notes[:_NOTES]:
            typer.echo(f"Mind: {note}.")
        if len(made.notes) > _NOTES:
            typer.echo(f"Mind: {len(made.notes) - _NOTES} more columns are left out; run.toml names them.")
        typer.echo(f"made {made.folder} with {', '.join(made.names)}; now type")
        for command in made.next_commands():
            typer.echo(f"  {command}")


@commands.command("doctor", epilog="Example: crescendo doctor")
def _doctor(as_json: AsJson = False) -> None:
    """Look at this machine: Python, packages, folders, disk, limits, port, clock. Exit code 1 if something is bad."""
    with one_sentence():
        from crescendo.cli.checkup import checkup

        found = list(checkup())
        bad = [check for check in found if check.state == "bad"]
        if as_json:
            print_json({"sound": not bad, "checks": [check.to_json() for check in found]})
        else:
            wide = max(len(check.name) for check in found)
            for check in found:
                typer.echo(f"{MARKS[check.state]}  {check.name:<{wide}}  {check.says}")
            typer.echo(f"{len(bad)} of {len(found)} checks are bad" if bad else "nothing stands in the way")
        if bad:
            raise typer.Exit(1)
