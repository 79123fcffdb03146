"""Commands of a federation over the network: `serve` on one host, `join` on each client, `aggregate` between them, `status`."""

from pathlib import Path
from typing import Annotated

import typer

from crescendo.cli.common import AsJson, Certs, Logs, Overrides, event_log, on_the_network, print_json
from crescendo.errors import UsageError

commands = typer.Typer(rich_markup_mode=None)

Where = Annotated[str, typer.Argument(metavar="HOST:PORT", help="The server's address.")]


@commands.command("serve", epilog="Example: crescendo serve federation.toml --listen 127.0.0.1:7077 --state served")
def _serve(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The run file, with [serve].")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address to listen on; port 0 takes a free one.")
    ],
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="The federation's folder; made if it is missing, resumed if it exists.")
    ],
    overrides: Overrides = None,
    certs: Certs = None,
    health: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Answer GET /healthz here.")] = None,
    linger: Annotated[
        float, typer.Option(help="Seconds to stay up after the last round, so that clients receive the last model.")
    ] = 60.0,
    keep: Annotated[
        str,
        typer.Option(
            metavar="needed|all", help="Keep only the part of the journal that a restart needs, or all of it."
        ),
    ] = "needed",
    logs: Logs = None,
    as_json: AsJson = False,
) -> None:
    """Serve a federation until its last round; after a stop or a crash the same command resumes it."""
    with on_the_network():
        from crescendo.config.loading import read_served

        config = read_served(file, overrides or [])

        from crescendo.cli.addresses import listening
        from crescendo.runs.serving import serve_file

        if keep not in ("needed", "all"):
            raise UsageError(f"--keep must be needed or all, not {keep!r}")
        where = listening(listen, certs, health)
        with event_log(logs) as log:
            served = serve_file(config, where, state, linger=linger, keep_all=keep == "all", log=log)
        facts: dict[str, object] = {"finished": served.finished, "k": served.k, "rounds": served.rounds, "model": None}
        if served.finished:
            facts["model"] = str(state / "model.npz")
        facts["score"] = None if served.score is None else served.score.plain()
        if as_json:
            print_json(facts)
        else:
            ended = (
                f"finished: the model is in {facts['model']}"
                if served.finished
                else "stopped: start it again to resume"
            )
            typer.echo(f"{served.k} of {served.rounds} rounds, {ended}")
            if served.score is not None:
                typer.echo(f"on the public set {config.serve.test}: {served.score}")


# A whole policy file; here rather than in the reader's module, which is not loaded to print help.
POLICY = """
dataset = "our records"     # the records that this budget protects, in whatever federation
epsilon = 1.0               # the most that may ever be spent on them
delta = 1e-6
mechanisms = ["minibatch"]  # or "local" or "batch-clip"; ["none"] gives no protection
"""


@commands.command(
    "join",
    epilog=f"\b\nA policy file, whose other keys are in docs/cli.md:{POLICY}\n"
    "\b\nExample: crescendo join 127.0.0.1:7077 --data mine.csv --as alice --state alice --policy policy.toml",
)
def _join(
    address: Where,
    data: Annotated[str, typer.Option(metavar="SOURCE", help="Your records: a file, or the name of a data set.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Your name in the federation's terms.")],
    state: Annotated[Path, typer.Option(metavar="DIR", help="Your folder: ledger, outbox, last model.")],
    policy: Annotated[Path, typer.Option(metavar="FILE.toml", help="Your limits: a policy file, as below.")],
    certs: Certs = None,
    label: Annotated[str | None, typer.Option(help="The label column of a csv file; by default the last.")] = None,
    folder: Annotated[str | None, typer.Option(help="The folder of the named data sets.")] = None,
    part: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="For trials: take your part of the source, as a simulation would."),
    ] = None,
    test: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Hold out this share of your records, and measure the last model on it here."
        ),
    ] = 0.0,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME", help="Your copy of the model's code, if the federation's model is not built in."
        ),
    ] = None,
    give_up_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Give up, with exit code 1, after so long without the server; by default never.",
        ),
    ] = None,
    checkpoint: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Save the current round each time it has computed for so long, so that a crash loses no more; 0 for never.",
        ),
    ] = 10.0,
    logs: Logs = None,
    as_json: AsJson = False,
) -> None:
    """Take part in a federation with your records; after a stop or a crash the same command resumes."""
    with on_the_network():
        from crescendo.federation.policy import Policy

        allowed = Policy.read(policy)

        from crescendo.cli.addresses import place
        from crescendo.federation.own_records import RecordSource
        from crescendo.network.client.join import check_interval, check_name
        from crescendo.network.client.join import join as run
        from crescendo.network.transport.retry import Backoff
        from crescendo.network.transport.security.address import Address
        from crescendo.objectives import ModelFile

        Address(address).check(certs)
        source = RecordSource(data, folder, label, part, test)
        check_name(name)
        check_interval(checkpoint)
        source.check()
        backoff = Backoff() if give_up_after is None else Backoff(give_up=give_up_after)
        copy = ModelFile.read(model, asked="--model") if model is not None else None
        there = place(address, certs, allowed, name)
        with event_log(logs) as log:
            joined = run(
                there,
                name,
                source,
                state,
                allowed,
                model=copy,
                log=log,
                backoff=backoff,
                checkpoint_every=checkpoint,
            )
        finished = joined.model is not None
        model = str(state / "model.npz") if finished else None
        if as_json:
            facts = {
                "finished": finished,
                "federation": joined.federation,
                "rounds": joined.rounds,
                "last": joined.last,
            }
            print_json({**facts, "model": model, "score": None if joined.score is None else joined.score.plain()})
        else:
            again = "to resume" if joined.federation is not None else "to try again; the server was never reached"
            ended = f"finished: the model is in {model}" if finished else f"stopped: start it again {again}"
            typer.echo(f"{name}: {ended}")
            if joined.score is not None:
                typer.echo(f"{name}: on records held out here: {joined.score}")


@commands.command("aggregate", epilog="Example: crescendo aggregate 127.0.0.1:7077 --listen 127.0.0.1:7078")
def _aggregate(
    parent: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The server, or another aggregator.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address for clients to join; port 0 takes a free one.")
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name in its certificate.")] = "aggregator",
    certs: Certs = None,
    logs: Logs = None,
    as_json: AsJson = False,
) -> None:
    """Stand between some clients and the server and add up the clients' updates; it may be stopped at any time."""
    with on_the_network():
        with event_log(logs) as log:
            from crescendo.cli.addresses import listening, place
            from crescendo.network.aggregator.node import aggregate as run

            finished = run(name, place(parent, certs, name=name), listening(listen, certs), log=log)
        ended = "finished" if finished else "stopped: start it again to resume"
        print_json({"finished": finished}) if as_json else typer.echo(f"{name}: {ended}")


@commands.command("status", epilog="Example: crescendo status 127.0.0.1:7077")
def _status(
    address: Where,
    certs: Certs = None,
    watch: Annotated[bool, typer.Option(help="Update once a second.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a federation that is being served: the clients, their connections, their rounds and their spent epsilon.

    \b
    here       yes, away (waited for), not yet (has never joined), or absent
    round      the client's settled rounds; lag: how many it is behind
    waiting    "for it" if the next round lacks its update
    silent     time since its last message
    up, down   bytes of vectors since this server was started
    eps spent  an upper bound on the cost of its settled rounds
    """
    with on_the_network():
        if watch and as_json:
            raise UsageError("--json prints one object and --watch has no end; choose one of them")

        from crescendo.cli.addresses import place
        from crescendo.cli.show.show_status import StatusPrinter, ask_status

        there = place(address, certs)
        if as_json:
            print_json(ask_status(there))
        elif watch:
            StatusPrinter().watch(there)
        else:
            StatusPrinter().show(ask_status(there))
