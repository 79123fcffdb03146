"""The commands of `python -m lab`: `list` shows the experiments, `reproduce` runs them and prints their findings."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json

if TYPE_CHECKING:
    from lab.pipeline.experiment import Experiment
    from lab.pipeline.stored_findings import StoredFindings

app = typer.Typer(
    name="lab",
    help="The experiments of the paper, from data to plot.",
    epilog="Example: python -m lab reproduce rounds-law --quick",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list", epilog="Example: python -m lab list")
def _list(as_json: AsJson = False) -> None:
    """List the experiments."""
    with one_sentence():
        from lab.catalogue import EXPERIMENTS

        print_json({"experiments": _listed(EXPERIMENTS)}) if as_json else _print_list(EXPERIMENTS)


@app.command("reproduce", epilog="Example: python -m lab reproduce rounds-law --quick")
def _reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds and short runs, to see that everything works.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds; by default each experiment's own number, 1 with --quick.")
    ] = None,
    first_seed: Annotated[int, typer.Option(help="The first of the seeds, which follow one another.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for results.md and results/; by default reproduced, or reproduced-quick."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page to write in place of results.md in that folder.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="How many processes to use; by default one for each core.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the paper's experiments, from data to plot: the paper's value, ours and the verdict."""
    with one_sentence():
        from crescendo.cli.forecast import Forecast, on_stderr
        from crescendo.cli.terminal import progress_bar
        from lab.pipeline.experiment import Effort
        from lab.reproduce import PAGE, reproduce

        effort = Effort(quick, seeds, first_seed)
        folder = out or Path("reproduced-quick" if quick else "reproduced")
        page = page or folder / PAGE
        with progress_bar() as bar:
            task = bar.add_task("Starting", total=None)
            forecasts: dict[str, Forecast] = {}

            def progress(experiment: str, done: int, total: int) -> None:
                bar.update(task, description=experiment, completed=done, total=total)
                forecasts.setdefault(experiment, Forecast(on_stderr(bar), experiment, "its first runs")).heard(
                    done, total
                )

            found = reproduce(name, folder, effort, page=page, processes=processes, progress=progress)
        print_json(_as_json(found, page)) if as_json else _print_findings(found, page)


def _listed(experiments: Sequence["Experiment"]) -> list[dict[str, Any]]:
    return [{"name": one.name, "title": one.title, "where": one.where, "in_all": not one.long} for one in experiments]


def _print_list(experiments: Sequence["Experiment"]) -> None:
    from rich.text import Text

    from crescendo.cli.terminal import Printer, new_table

    table = new_table(None, "name")
    for column in ("what", "in the paper"):
        table.add_column(column)
    for one in experiments:
        table.add_row(*map(Text, (one.name, one.title + (" (not part of all)" if one.long else ""), one.where)))
    Printer().print(table)


def _as_json(found: Sequence["StoredFindings"], page: Path) -> dict[str, Any]:
    """Return the page's path and every statement with its verdict."""
    return {
        "page": str(page),
        "experiments": [
            {
                "name": one.name,
                "quick": one.quick,
                "absent": list(one.absent),
                "seeds": list(one.seeds),
                "statements": [{**asdict(said), "verdict": said.verdict} for said in one.findings.statements],
            }
            for one in found
        ],
    }


def _print_findings(found: Sequence["StoredFindings"], page: Path) -> None:
    from rich.text import Text

    from crescendo.cli.terminal import Printer, new_table

    printer = Printer()
    for one in found:
        table = new_table(one.name + (", a quick run" if one.quick else ""))
        for column in ("what", "the paper", "ours", "verdict"):
            table.add_column(column, overflow="fold")
        for said in one.findings.statements:
            table.add_row(*map(Text, (said.what, said.paper, said.ours, said.verdict)))
        printer.print(table)
        if one.absent:
            get = " or ".join(f"`crescendo data get {name}`" for name in one.absent)
            printer.say(f"data not present: {', '.join(one.absent)}; try {get}, or name a folder in CRESCENDO_DATA")
    printer.say(f"tables and figures are in {page}")
