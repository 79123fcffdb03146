"""The command line: each command is a few lines over one function of the API.

Nothing heavy is imported before a command needs it, so that ``--help`` and mistakes answer at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from crescendo.apps import aggregate, certs, network_cli, privacy_cli
from crescendo.errors import CrescendoError

app = typer.Typer(
    name="crescendo",
    help="Asynchronous federated learning in rounds that grow.",
    epilog="Example: crescendo run examples/flights.toml",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data = typer.Typer(
    name="data",
    help="The data sets a run file can name.",
    epilog="Example: crescendo data list",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data)

RunFile = Annotated[Path, typer.Argument(metavar="FILE.toml", help="The run file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Set a key of the run file; repeat at will.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


EXTRAS = {
    "grpc": "network",
    "google": "network",
    "cryptography": "network",
    "pandas": "demo",
}  # package -> what brings it


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """What we raise on purpose, and what the system refuses, ends as one sentence on stderr and exit code 1."""
    try:
        yield
    except CrescendoError as error:
        raise _fail(str(error)) from None
    except BrokenPipeError:
        # The reader has gone (`| head`): say nothing, and keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except KeyboardInterrupt:
        raise _fail("stopped", 130) from None
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise _fail(
            f"this needs the package {error.name}; install it with pip install 'crescendo-fl[{extra}]'"
        ) from None
    except MemoryError:
        raise _fail("out of memory; use fewer clients or records, or a larger evaluate.every") from None
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise _fail(f"the system refused{where}: {(error.strerror or str(error)).lower()}") from None


def _fail(sentence: str, code: int = 1) -> typer.Exit:
    typer.echo(f"crescendo: {sentence}", err=True)
    return typer.Exit(code)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"crescendo {version('crescendo-fl')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: crescendo run examples/a9a.toml --set clients.count=10")
def run(
    file: RunFile,
    overrides: Overrides = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set run.seed=N.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; else runs/NAME-NUMBER.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation and write a folder with its metrics, trace, model and report."""
    with one_sentence():
        from crescendo.apps.runfile import read

        changes = [*(overrides or ()), *([f"run.seed={seed}"] if seed is not None else ())]
        config = read(file, changes)

        from crescendo.apps import show
        from crescendo.apps.folder import next_folder
        from crescendo.apps.run import simulate

        with show.progress(config) as watch:
            result = simulate(config, out=out or next_folder(file.stem), watch=watch)
        _print_json(result.as_json()) if as_json else show.result(result)


@app.command(epilog="Example: crescendo schedule examples/a9a.toml")
def schedule(file: RunFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show what a run file asks for before running it: the certificate and the first rounds."""
    with one_sentence():
        from crescendo.apps.runfile import read

        config = read(file, overrides or ())

        from crescendo.apps import show
        from crescendo.apps.build import prepare

        prepared = prepare(config)
        _print_json(show.schedule_as_json(prepared)) if as_json else show.schedule(prepared)


@data.command("list", epilog="Example: crescendo data list --json")
def data_list(as_json: AsJson = False) -> None:
    """List the sources that data.source can name."""
    with one_sentence():
        from crescendo.apps import show
        from crescendo.data import catalogue

        sources = catalogue()
        _print_json(show.sources_as_json(sources)) if as_json else show.sources(sources)


app.add_typer(privacy_cli.commands)  # plan, account, audit
app.add_typer(network_cli.commands)  # serve, join, status
app.add_typer(aggregate.commands)
app.add_typer(certs.commands)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, allow_nan=False))
    sys.stdout.flush()


def main() -> None:
    app()


if __name__ == "__main__":
    main()
