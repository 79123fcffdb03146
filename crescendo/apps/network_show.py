"""A served federation as a table."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import grpc
import grpc.aio
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

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
    title = Text(f"{found['federation']}: {state}{epoch}")  # names are others' words, not markup
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, collapse_padding=True)
    table.add_column("client", overflow="fold", min_width=8)  # alone gives way: a long name takes several lines
    for column in ("here", "round", "lag", "waited", "silent", "up", "down", "epsilon"):
        table.add_column(column, justify="left" if column in ("here", "waited") else "right", no_wrap=True)
    for client in found["clients"]:
        here = "yes" if client["connected"] else "away" if client["present"] else "absent"
        table.add_row(
            Text(client["name"]),
            here,
            str(client["round"]),
            str(client["lag"]),
            "yes" if client["waited_for"] else "",
            span(client["silent_seconds"]),
            size(client["bytes_up"]),
            size(client["bytes_down"]),
            "-" if client["epsilon"] is None else f"{client['epsilon']:.3g}",
        )
    return table


def size(many: int) -> str:
    """
    >>> size(999), size(1_000), size(45_600_000), size(999_999_999)
    ('999 B', '1.0 kB', '46 MB', '1.0 GB')
    """
    value, units = float(many), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while value >= 999.5 and unit != "PB":
        value, unit = value / 1000, next(units)
    return f"{value:.1f} {unit}" if value < 9.95 and unit != "B" else f"{value:.0f} {unit}"


def span(seconds: float) -> str:
    """
    >>> span(4.2), span(150), span(10_000), span(1_000_000)
    ('4 s', '2 min', '3 h', '12 d')
    """
    for most, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
