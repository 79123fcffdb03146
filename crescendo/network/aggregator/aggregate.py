"""`aggregate`: a node of the tree between clients and a served federation. It keeps nothing on disk and may die at any time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crescendo.cli.common import AsJson, Certs, on_the_network, print_json, structured_log
from crescendo.errors import UsageError
from crescendo.logs import Log, quiet
from crescendo.network.transport.shutdown import ShutdownRequest, shutdown_on_signals

if TYPE_CHECKING:
    from crescendo.network.transport.channels import Backoff

commands = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True)
class Tree:
    """Where an aggregator stands: its parent, its own address, and the folder of its certificates."""

    parent: str
    listen: str
    name: str = "aggregator"
    certs: Path | None = None


def aggregate(tree: Tree, *, log: Log = quiet, backoff: Backoff | None = None) -> bool:
    """Aggregate until the run is over (True) or a signal comes."""
    with shutdown_on_signals() as shutdown:
        return asyncio.run(_aggregate(tree, shutdown, log, backoff))


async def _aggregate(tree: Tree, shutdown: ShutdownRequest, log: Log, backoff: Backoff | None) -> bool:
    from crescendo.cli.addresses import listening, place
    from crescendo.federation.agreement import build_terms
    from crescendo.network.aggregator.node import Node, Work
    from crescendo.privacy.mechanisms.norm_limits import Limits

    def build(text: str) -> Work:
        agreed = build_terms(text)
        return Work(
            agreed.terms,
            text,
            agreed.federation,
            agreed.digest,
            tuple(agreed.names),
            agreed.wire,
            agreed.objective.size,
            Limits(agreed.certificate, agreed.objective.size, agreed.objective.traits.l2),
        )

    there, here = place(tree.parent, tree.certs), listening(tree.listen, tree.certs)
    node = Node(tree.name, there, build, here.admit, backoff, log)
    try:
        return await node.run(here.address, shutdown.event(), here.credentials)
    except RuntimeError as error:
        raise UsageError(f"{tree.listen} cannot be listened on ({error}); is the port in use?") from None


@commands.command("aggregate", epilog="Example: crescendo aggregate 127.0.0.1:7077 --listen 127.0.0.1:7078")
def command(
    parent: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The server, or another aggregator.")],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where clients join; port 0 takes a free one.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Its name in its certificate.")] = "aggregator",
    certs: Certs = None,
    as_json: AsJson = False,
) -> None:
    """Stand between some clients and the server, and add up what they send; it may die at any time."""
    with on_the_network():
        with structured_log() as log:
            finished = aggregate(Tree(parent, listen, name, certs), log=log)
        ended = "finished" if finished else "stopped: start it again to go on"
        print_json({"finished": finished}) if as_json else typer.echo(f"{name}: {ended}")
