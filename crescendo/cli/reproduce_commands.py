"""`reproduce`: prints where to repeat the paper's experiments, which are outside the package, in the folder lab."""

import shlex
from pathlib import Path

import typer

CHECKOUT = Path(__file__).resolve().parents[2]
commands = typer.Typer(rich_markup_mode=None)


@commands.command(
    "reproduce",
    epilog="Example: crescendo reproduce rounds-law",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _reproduce(context: typer.Context) -> None:
    """Print how to repeat the paper's experiments, which an installation does not include. Exit code 2."""
    typer.echo(f"crescendo: {where(CHECKOUT, context.args)}", err=True)
    raise typer.Exit(2)


def where(folder: Path, words: list[str]) -> str:
    """Return the sentence for a package that lies in ``folder``, with the line that runs what ``words`` ask for.

    >>> where(Path("/nowhere"), ["rounds-law", "--quick"])
    'the experiments are in the source distribution; in its folder, type `python -m lab reproduce rounds-law --quick`'
    """
    line = shlex.join(["python", "-m", "lab", *(["reproduce", *words] if words else ["list"])])
    if (folder / "lab" / "catalogue.py").is_file():
        return f"the experiments are in this checkout's folder lab; in {folder}, type `{line}`"
    return f"the experiments are in the source distribution; in its folder, type `{line}`"
