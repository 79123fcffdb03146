"""The commands of a first hour: `doctor`."""

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json

commands = typer.Typer(rich_markup_mode=None)
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


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
