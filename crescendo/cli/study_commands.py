"""Commands for studies: `sweep` and `compare` run one run file many times and write one page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crescendo.cli.common import AsJson, Overrides, RunFile, one_sentence, print_json
from crescendo.errors import UsageError

if TYPE_CHECKING:
    from crescendo.studies.study_events import Listener

commands = typer.Typer(rich_markup_mode=None)
Standalone = Annotated[bool, typer.Option("--standalone", help="Write a page of 5 MB that needs no other file.")]


@commands.command("sweep", epilog="Example: crescendo sweep examples/a9a.toml --over clients.count=2,5,10")
def _sweep(
    file: RunFile,
    over: Annotated[
        list[str] | None,
        typer.Option("--over", metavar="a.b=x,y,z", help="A key and its values, or a range 0..4; repeat for a grid."),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="The sweep's folder; by default runs/NAME-sweep.")] = None,
    standalone: Standalone = False,
    as_json: AsJson = False,
) -> None:
    """Run a run file over a grid of its keys; if stopped, the same command resumes."""
    with one_sentence():
        from crescendo.studies.sweeping import sweep

        folder = out or Path("runs") / f"{file.stem}-sweep"
        with _watched(folder) as tell:
            found = sweep(file, over or (), overrides=overrides or (), out=folder, standalone=standalone, tell=tell)
        if as_json:
            print_json(found.as_json())
        else:
            from crescendo.cli.show.show_study import StudyPrinter

            StudyPrinter().sweep(found)
        if found.count("failed") == len(found.points):
            raise UsageError(f"every run of the sweep failed; the first: {found.points[0].outcome.says}")


@commands.command("compare", epilog="Example: crescendo compare examples/a9a.toml --with fedavg,fedbuff --tune 8")
def _compare(
    file: RunFile,
    rivals: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME,NAME", help="The rivals, such as fedavg,fedbuff; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each algorithm, with seeds from run.seed on.")] = 5,
    tune: Annotated[
        int, typer.Option(metavar="N", help="Trials to tune each algorithm first, on a part of the training records.")
    ] = 0,
    target: Annotated[
        float | None,
        typer.Option(metavar="A", help="The accuracy (or R²) to reach; by default slightly below the best."),
    ] = None,
    equal: Annotated[
        str | None,
        typer.Option(
            metavar="epsilon|noise", help="Give private runs the same epsilon or noise; by default epsilon if stated."
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME.KEY=VALUE", help="Fix an option of an algorithm; may be repeated."),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="The comparison's folder; by default runs/NAME-compare.")] = None,
    standalone: Standalone = False,
    as_json: AsJson = False,
) -> None:
    """Run other algorithms on the same records, clock and gradients, and show which differences are significant."""
    with one_sentence():
        from crescendo.studies.comparing import compare, parsed_options

        names = [name.strip() for one in rivals or () for name in one.split(",") if name.strip()]
        given, folder = parsed_options(options or ()), out or Path("runs") / f"{file.stem}-compare"
        with _watched(folder) as tell:
            found = compare(
                file, names, seeds=seeds, tune=tune, target=target, equal=equal, options=given, overrides=overrides or (),
                out=folder, standalone=standalone, tell=tell,
            )  # fmt: skip
        if as_json:
            print_json(found.as_json())
        else:
            from crescendo.cli.show.show_study import StudyPrinter

            StudyPrinter().comparison(found)


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[Listener]:
    """Show a progress bar; after an interrupt, print which runs are kept."""
    from crescendo.cli.show.show_study import Progress

    with Progress() as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            progress.stopped(folder)
            raise
