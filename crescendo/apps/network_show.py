"""A served federation as a table."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import grpc
import grpc.aio
from rich.console import Console
from rich.live import Live
from rich.table import Table

from crescendo.errors import UsageError
from crescendo.runtimes.network.link import Place
from crescendo.runtimes.network.link import status_of as asked


def ask_status(place: Place, timeout: float = 10.0) -> dict[str, Any]:
    """What the server says about itself, or UsageError in one sentence."""
    try:
        found: dict[str, Any] = json.loads(asyncio.run(asked(place, timeout)))
        return found
    except grpc.aio.AioRpcError as error:
        raise UsageError(
            f"the server at {place.address} does not answer ({error.code().name.lower()}); check address and certificates"
        ) from None
    except ValueError:
        raise UsageError(f"what answers at {place.address} is not a Crescendo server of this version") from None


def show_status(found: dict[str, Any]) -> None:
    Console().print(_table(found))


def watch_status(place: Place) -> None:
    """Until interrupted."""
    with Live(_table(ask_status(place)), auto_refresh=False) as live:
        while True:
            time.sleep(1.0)
            live.update(_table(ask_status(place)), refresh=True)


def _table(found: dict[str, Any]) -> Table:
    state = "finished" if found["finished"] else f"round {found['k']} of {found['rounds']}"
    epoch = f", epoch {found['epoch']}" if found["epoch"] else ""
    table = Table(title=f"{found['federation']}: {state}{epoch}", title_justify="left")
    for column in ("client", "here", "round", "lag", "waited for", "silent s", "bytes up", "bytes down", "epsilon"):
        table.add_column(column, justify="left" if column in ("client", "here", "waited for") else "right")
    for client in found["clients"]:
        here = "yes" if client["connected"] else "away" if client["present"] else "absent"
        epsilon = "-" if client["epsilon"] is None else f"{client['epsilon']:.3g}"
        table.add_row(
            client["name"],
            here,
            str(client["round"]),
            str(client["lag"]),
            "yes" if client["waited_for"] else "",
            f"{client['silent_seconds']:.0f}",
            f"{client['bytes_up']:,}",
            f"{client['bytes_down']:,}",
            epsilon,
        )
    return table
