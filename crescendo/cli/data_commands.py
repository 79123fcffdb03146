"""Commands for data sets: `data list`, `data get` and `data schema`."""

from pathlib import Path
from typing import Annotated

import typer

from crescendo.cli.common import AsJson, one_sentence, print_json
from crescendo.cli.drafting_flags import Delta, Kinds, PolicyFile, Ranges, Records, StateFolder, Values

data = typer.Typer(
    name="data",
    help="List and download the data sets that a run file can name.",
    epilog="Example: crescendo data list",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@data.command("list", epilog="Example: crescendo data list --json")
def _list(as_json: AsJson = False) -> None:
    """List the sources that data.source can name, and how to get those that are not here."""
    with one_sentence():
        from crescendo.cli.show import show_run as show
        from crescendo.data import catalogue

        sources = catalogue()
        print_json({"sources": [vars(source) for source in sources]}) if as_json else show.RunPrinter().sources(sources)


@data.command("get", epilog="Example: crescendo data get a9a")
def _get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of `crescendo data list`.")],
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to download to; by default the cache.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="The address of a mirror that has the same files.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a public data set, check its sha256, and keep it where runs find it."""
    with one_sentence():
        from crescendo.cli.terminal import progress_bar
        from crescendo.data.download import get

        with progress_bar() as bar:
            task = bar.add_task(name, total=None)
            found = get(
                name,
                to,
                mirror,
                lambda file, done, total: bar.update(task, description=file, completed=done, total=total),
            )
        if as_json:
            print_json({"source": name, "files": [file.to_json() for file in found]})
            return
        for file in found:
            typer.echo(f"{'downloaded' if file.downloaded else 'already here:'} {file.path}")


@data.command(
    "schema",
    epilog="\b\nExample: crescendo data schema sample.csv --label died --public --out schema.toml\n"
    "\b\nFrom private records: crescendo data schema mine.csv --label died --epsilon 0.5 --policy policy.toml --state mine",
)
def _schema(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A table: .csv, .tsv or .parquet. A public sample; with --epsilon, private records."
        ),
    ],
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column to predict; by default the last.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The file to write; by default the schema is printed.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Draft from private records by noisy counts, and charge this epsilon to their ledger."),
    ] = None,
    delta: Delta = None,
    policy: PolicyFile = None,
    state: StateFolder = None,
    ranges: Ranges = None,
    values: Values = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column, or a pattern such as 'lab_*', that has numbers."),
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column, or a pattern, that has categories.")
    ] = None,
    kinds: Kinds = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out.")] = None,
    records: Records = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="FILE is public or made up, with no record to protect: lines need no mark looked_at."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draft a schema, which defines how columns become features, for a person to edit: from a public sample, or privately.

    With --epsilon the records are private: the draft uses differentially private counts, is charged to the records' ledger
    before it is shown, and is public from then on. The same command shows the same draft again and charges nothing.
    """
    with one_sentence():
        from crescendo.cli.drafting_flags import DraftFlags

        about = (ranges or [], values or [], numbers or [], categories or [], drop or [])
        flags = DraftFlags(label, delta, policy, state, *about, records, kinds or [])
        from crescendo.errors import ConfigError

        if epsilon is not None and public:
            raise ConfigError(
                "--public is for records that need no protection, and --epsilon protects them; leave one out"
            )
        if epsilon is not None:
            flags.bought(file, epsilon, out).show(as_json)
            return
        flags.check_public()

        from crescendo.config.schema_file import DraftedSchema, write_schema

        found = DraftedSchema.of(file, label, public)
        if out is not None:
            write_schema(out, found.text)
        if as_json:
            print_json({**found.to_json(), "written": None if out is None else str(out)})
        elif out is None:
            typer.echo(found.text, nl=False)
        else:
            from crescendo.cli.terminal import Printer

            printer = Printer()
            for sentence in found.sentences(out):
                printer.say(sentence)
            typer.echo(found.for_a_run_file(out), nl=False)
