"""Commands for a state on disk: `verify` and `backup`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json

if TYPE_CHECKING:
    from crescendo.storage.upkeep.examination import Examination

commands = typer.Typer(rich_markup_mode=None)
State = Annotated[Path, typer.Argument(metavar="STATE", help="A server's or client's folder, or a ledger's file.")]


@commands.command("verify", epilog="Example: crescendo verify served")
def _verify(state: State, as_json: AsJson = False) -> None:
    """Check a state on disk from end to end, even while it is in use, and change nothing. Exit code 1 if it is damaged."""
    with one_sentence():
        from crescendo.runs.upkeep import verify

        found = verify(state)
        print_json(found.to_json()) if as_json else _print(found, "sound" if found.sound else "DAMAGED")
        if not found.sound:
            raise typer.Exit(1)


@commands.command("backup", epilog="Example: crescendo backup served backups/served-monday")
def _backup(
    state: State,
    to: Annotated[Path, typer.Argument(metavar="TO", help="A new folder.")],
    as_json: AsJson = False,
) -> None:
    """Copy a state, which may be in use, to a new folder, and verify the copy."""
    with one_sentence():
        from crescendo.runs.upkeep import backup

        found = backup(state, to)
        print_json(found.to_json()) if as_json else _print(found, "copied and sound")


def _print(found: "Examination", verdict: str) -> None:
    for sentence in [*found.damage, *(f"note: {note}" for note in found.notes)]:
        typer.echo(sentence)
    facts = ", ".join(f"{name} {value}" for name, value in found.facts.items() if isinstance(value, int))
    typer.echo(f"{found.kind} {found.path}: {verdict}{f' ({facts})' if facts else ''}")
