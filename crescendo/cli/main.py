"""Command line: each command is a few lines over one function of the API.

Commands import heavy packages only when they need them, so that ``--help`` and mistakes are answered at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from crescendo.cli import certs_commands as certs_cli
from crescendo.cli import data_commands as data_cli
from crescendo.cli import first_commands as first_cli
from crescendo.cli import network_commands as network_cli
from crescendo.cli import privacy_commands as privacy_cli
from crescendo.cli import reproduce_commands as reproduce_cli
from crescendo.cli import study_commands as study_cli
from crescendo.cli import upkeep_commands as upkeep_cli
from crescendo.cli.common import AsJson, Overrides, RunFile, one_sentence, print_json
from crescendo.errors import Diverged, UsageError

app = typer.Typer(
    name="crescendo",
    help="Asynchronous federated learning in rounds that grow.",
    epilog="Example: crescendo run examples/flights.toml",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from crescendo.cli.checkup import versions

        typer.echo(versions())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of Crescendo, Python and the main packages.",
        ),
    ] = False,
) -> None:
    pass


@app.command("run", epilog="Example: crescendo run examples/a9a.toml --set clients.count=10")
def _run(
    file: RunFile,
    overrides: Overrides = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set run.seed=N.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default runs/NAME-NUMBER.")] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Write a report of 5 MB that needs no other file.")
    ] = False,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="The most clients that compute at once; by default as many as make the run faster."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation and write a folder with its metrics, trace, model and report."""
    with one_sentence():
        from crescendo.config.loading import read

        changes = _with_seed(overrides or [], seed)
        config = read(file, changes)

        from crescendo.cli.show import show_run as show
        from crescendo.runs.folder import next_folder
        from crescendo.runs.simulate import simulate

        with show.progress(config) as bar:
            folder = out or next_folder(file.stem)
            try:
                result = simulate(config, out=folder, sinks=[bar], standalone=standalone, cores=cores)
            except Diverged as error:
                if as_json:
                    print_json({"diverged": str(error), "run": None})
                raise
        print_json(result.as_json()) if as_json else show.RunPrinter().result(result)
        if result.diverged is not None:
            raise Diverged(result.diverged)
        if result.doubt is not None and result.doubt.fails:
            raise Diverged(result.doubt.says)


def _with_seed(overrides: list[str], seed: int | None) -> list[str]:
    """Return the overrides with ``seed``; refuse a seed that is stated twice."""
    if seed is None:
        return overrides
    if any("".join(one.partition("=")[0].split()) == "run.seed" for one in overrides):
        raise UsageError("the seed is stated twice, by --seed and by --set run.seed; leave one out")
    return [*overrides, f"run.seed={seed}"]


@app.command("schedule", epilog="Example: crescendo schedule examples/a9a.toml")
def _schedule(file: RunFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show the certificate and the first rounds of a run file, without running or serving it."""
    with one_sentence():
        from crescendo.config.loading import read_either

        config = read_either(file, overrides or ())

        from crescendo.cli.show import show_run as show
        from crescendo.cli.terminal import progress_bar
        from crescendo.runs.prepare import certified

        with progress_bar() as bar:
            bar.add_task("Certifying", total=None)
            found = certified(config)
        print_json(show.schedule_as_json(*found)) if as_json else show.RunPrinter().schedule(*found)


@app.command("export", epilog="Example: crescendo export runs/flights-1 --to sklearn")
def _export(
    run: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A run's folder, or a finished federation's folder or model.npz.")
    ],
    to: Annotated[str, typer.Option(help="The format: torch, safetensors, sklearn, onnx or npz.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; by default one in that folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model as a file of another library."""
    with one_sentence():
        from crescendo.cli.terminal import progress_bar
        from crescendo.runs.export import export

        with progress_bar() as bar:  # accounting the epsilon on the card of a private federation takes a while
            bar.add_task("Exporting", total=None)
            path, written, by_schema, card = export(run, to, out)
        says = f"wrote {path}" if written else f"{path} exists already: the run wrote it"
        if by_schema:
            own = run / "schema.toml"
            what = own if own.is_file() else "the terms' schema"
            says += f"; it takes the features that {what} makes of a table's columns, not the columns themselves"
        says += "" if card is None else f"; {card} describes it"
        facts = {"model": str(path), **({} if card is None else {"card": str(card)})}
        print_json(facts) if as_json else typer.echo(says)


@app.command("predict", epilog="Example: crescendo predict runs/mine-1 new.csv --out answers.csv")
def _predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run's folder, a finished federation's folder, or its model.npz."),
    ],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A csv, tsv, Parquet, npz or LIBSVM file of records.")],
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with labels, to score; by default the training label's."),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option("--model", metavar="FILE.py:NAME", help="Your copy of the model's code, if it is not built in."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; by default the answers go to stdout.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predict new records with a trained model: a label or number for each, as csv, in the order of the table."""
    with one_sentence():
        from crescendo.calls.loaded_run import load
        from crescendo.cli.show.show_answers import csv_of, write_new

        found = load(model, objective=code).answers(table, label)
        if out is not None:
            write_new(out, csv_of(found.predictions))
        if as_json:
            answers = found.predictions.tolist() if out is None else None
            score = None if found.score is None else found.score.plain()
            facts = {"records": len(found.predictions), "predictions": answers, "score": score}
            print_json({**facts, "out": None if out is None else str(out), "notes": list(found.notes)})
            return
        if out is None:
            typer.echo(csv_of(found.predictions), nl=False)
        for note in found.notes:
            typer.echo(f"Note: {note}.", err=True)
        if found.score is not None:
            typer.echo(f"{found.score}", err=True)
        if out is not None:
            typer.echo(f"wrote {len(found.predictions):,} answers to {out}")


@app.command("check", epilog="Example: crescendo check runs/a9a-1")
def _check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    as_json: AsJson = False,
) -> None:
    """Verify that every gradient of a run saw the updates that its delay bound requires. Exit code 1 if one did not."""
    with one_sentence():
        from crescendo.cli.terminal import Printer, progress_bar
        from crescendo.runs.checking import RunCheck

        with progress_bar() as bar:
            bar.add_task("Checking", total=None)
            found = RunCheck.of(run)
        if as_json:
            print_json(found.to_json())
        else:
            for i, c in found.found.excluded:
                typer.echo(f"excluded: round {i} of {found.names[c]}")
            Printer().say(found.verdict)
        if not found.holds:
            raise typer.Exit(1)


app.add_typer(first_cli.commands)  # new, doctor
app.add_typer(data_cli.data)  # list, get
app.add_typer(privacy_cli.commands)  # plan, account, audit
app.add_typer(network_cli.commands)  # serve, join, aggregate, status
app.add_typer(certs_cli.certs)
app.add_typer(upkeep_cli.commands)  # verify, backup
app.add_typer(reproduce_cli.commands)
app.add_typer(study_cli.commands)  # sweep, compare
