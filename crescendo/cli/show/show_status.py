"""Printer of `status`: a served federation as a table."""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crescendo.cli.terminal import Printer, new_table
from crescendo.errors import UsageError
from crescendo.logs.peer_text import all_cleaned
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.error_translation import is_unrecoverable
from crescendo.report.numbers import size

COLUMNS = ("here", "round", "lag", "waiting", "silent", "up", "down", "eps spent")  # after the client's name

WORTH_SAYING = 5.0  # seconds that a round has waited for a client
FLAPS = 3  # joins without an update
MOST_LINES = 5  # on clients that hold a round up, and as many on clients on probation

_UNSOUND = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)  # raised by JSON that is not a status


def ask_status(endpoint: Endpoint, timeout: float = 15.0) -> dict[str, Any]:
    """Return the server's status. Raise UsageError if there is no answer or no valid one."""
    try:
        found: dict[str, Any] = all_cleaned(json.loads(asyncio.run(endpoint.status(timeout))))
        _picture(found)  # refuse a status that cannot be shown
        return found
    except grpc.aio.AioRpcError as error:
        raise _trouble(endpoint, error) from None
    except _UNSOUND:
        raise UsageError(f"the program at {endpoint.address} is not a Crescendo server of this version") from None


class _NotThere(UsageError):
    """No server answers; one may later."""


def _trouble(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> UsageError:
    address = endpoint.address
    if error.code() is grpc.StatusCode.UNAUTHENTICATED:
        return UsageError(f"the server at {address} says: {endpoint.why(error)}")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return UsageError(f"the program at {address} has no status; is it an aggregator? ask the server itself")
    sentence = f"the server at {address} does not answer: {endpoint.why(error)}"
    return UsageError(sentence) if is_unrecoverable(error) else _NotThere(sentence)


class StatusPrinter(Printer):
    """Prints a server's status."""

    def show(self, found: dict[str, Any]) -> None:
        self.print(_picture(found))

    def watch(self, endpoint: Endpoint) -> None:
        """Print the status once a second until interrupted. Wait for a server that does not answer; raise other errors."""
        found = None
        with suppress(KeyboardInterrupt), Live(console=self, auto_refresh=False) as live:  # Ctrl-C ends it
            while True:
                found, shown = _look(endpoint, found)
                if self.is_terminal:
                    live.update(shown, refresh=True)
                else:  # a file gets every status, one after the other
                    self.print(shown)
                time.sleep(1.0)


def _look(endpoint: Endpoint, before: dict[str, Any] | None) -> tuple[dict[str, Any] | None, RenderableType]:
    """Return the newest status known, and the text to show."""
    try:
        found = ask_status(endpoint)
        return found, _picture(found)
    except UsageError as error:
        if before is not None:
            words = f"Not up to date: {_ended(error)} A server exits with its run. Asking again."
            return before, Group(_picture(before), Text(words))
        if not isinstance(error, _NotThere):
            raise
        sentence = _ended(error)
        return None, Text(f"{sentence[0].upper()}{sentence[1:]} Asking again each second; Ctrl-C ends it.")


def _ended(error: Exception) -> str:
    return str(error) if str(error).endswith("?") else f"{error}."


def _picture(found: dict[str, Any]) -> RenderableType:
    """Return the table, and lines on waiting, disk, the epsilon column and versions."""
    if found["mechanism"] == "none":
        note = "This federation has no privacy mechanism, so no epsilon holds."
    else:
        note = f"eps spent: an upper bound for the rounds that arrived, at delta {found['delta']:g} ({found['mechanism']})."
        if any(client["epsilon_is"] != "tight" for client in found["clients"]):
            note += " With <= it is a quick bound, or the cost of the whole plan: ask again for the tight one."
    lines = *_waiting(found), *_disk(found), note, _versions(found)
    return Group(_table(found), *map(Text, lines))


def _waiting(found: dict[str, Any]) -> list[str]:
    """Return lines on the clients that hold a round up longest, and on those that join repeatedly without an update.

    >>> alice = {"name": "alice", "waited_seconds": 250.0, "joins_without_update": 11, "on_probation": False}
    >>> bob = {"name": "bob", "waited_seconds": None, "joins_without_update": 12, "on_probation": True}
    >>> print(*_waiting({"k": 4, "hold_seconds": 600.0, "clients": [bob, alice]}), sep=chr(10))
    Round 4 has waited 4 min for alice, which is flapping: 11 joins, 0 rounds. It waits 10 min at most.
    bob is flapping: 12 joins, 0 rounds. No round waits for it until it sends an update.
    >>> _waiting({"clients": [{"name": "of an older server"}]})
    []
    """
    slow = [c for c in found["clients"] if (c.get("waited_seconds") or 0.0) >= WORTH_SAYING]
    slow.sort(key=lambda client: client["waited_seconds"], reverse=True)
    lines = []
    for client in slow[:MOST_LINES]:
        flaps = f", which is {_flapping(client)}" if _flapping(client) else ""
        words = f"Round {found['k']:,} has waited {_span(client['waited_seconds'])} for {client['name']}{flaps}."
        lines.append(f"{words} It waits {_span(found['hold_seconds'])} at most.")
    held_off = [client for client in found["clients"] if client.get("on_probation")]
    for client in held_off[:MOST_LINES]:
        flaps = f"is {_flapping(client)}" if _flapping(client) else "held a round up twice"
        lines.append(f"{client['name']} {flaps}. No round waits for it until it sends an update.")
    return lines


def _flapping(client: dict[str, Any]) -> str:
    joins = client.get("joins_without_update", 0)
    return f"flapping: {joins:,} joins, 0 rounds" if joins >= FLAPS else ""


def _disk(found: dict[str, Any]) -> list[str]:
    """Return a line if the server's disk is nearly full. The status of an older server lacks the disk, or its bytes.

    >>> _disk({}), _disk({"disk": "enough", "disk_free": 0.5})
    ([], [])
    >>> full = {"disk": "none", "disk_free": 0.0191, "disk_free_bytes": 60e6, "disk_reserve_bytes": 80e6}
    >>> print(*_disk({"disk": "little", "disk_free": 0.084}), *_disk(full), sep=chr(10))
    The server's disk is filling up: 8.4% of it is free.
    The server's disk is FULL: 60.0 MB (1.9%) of it is free, 80.0 MB are kept, and clients are turned away until there is room.
    """
    if found.get("disk") not in ("little", "none"):
        return []
    free, kept = f"{found['disk_free']:.1%}", ""
    if found.get("disk_free_bytes") is not None:
        free, kept = f"{size(found['disk_free_bytes'])} ({free})", f"{size(found['disk_reserve_bytes'])} are kept"
    if found["disk"] == "little":
        return [f"The server's disk is filling up: {free} of it is free{', and ' + kept if kept else ''}."]
    kept = f" {kept}," if kept else ""
    return [f"The server's disk is FULL: {free} of it is free,{kept} and clients are turned away until there is room."]


def _versions(found: dict[str, Any]) -> str:
    """Return a line with the parties of each version, or their count if they are many. An older server reports no version.

    >>> clients = [{"name": name, "version": version} for name, version in (("a", "0.2.0"), ("b", "unknown"), ("c", None))]
    >>> nodes = [{"name": "north", "version": "0.1.0"}]
    >>> print(_versions({"version": "0.2.0", "aggregators": nodes, "clients": clients}))
    Versions: 0.1.0 (aggregator north), 0.2.0 (server, a), unknown (b).
    >>> clients = [{"name": name, "version": "0.2.0", "build": build} for name, build in (("a", "12ab"), ("b", "34cd"))]
    >>> print(_versions({"version": "0.2.0", "build": "12ab", "aggregators": [], "clients": clients}))
    Versions: 0.2.0 build 12ab (server, a), 0.2.0 build 34cd (b).
    >>> print(_versions({"clients": [{"name": "a"}]}))
    Versions: unknown; the server is too old to report them.
    """
    if "version" not in found:
        return "Versions: unknown; the server is too old to report them."
    parties, clients = {_version(found, found): ["server"]}, dict[str, list[str]]()
    for node in found["aggregators"]:
        parties.setdefault(str(node["version"]), []).append(f"aggregator {node['name']}")
    for client in found["clients"]:
        if client["version"] is not None:  # it has joined since the server was started
            clients.setdefault(_version(client, found), []).append(client["name"])
    for version, names in clients.items():
        parties.setdefault(version, []).extend(names if len(names) <= 3 else [f"{len(names):,} clients"])
    words = [f"{version} ({', '.join(parties[version])})" for version in sorted(parties)]
    return f"Versions: {', '.join(words)}."


def _version(party: dict[str, Any], found: dict[str, Any]) -> str:
    """Return a party's version, with its build if another party runs another build of that version."""
    version = party["version"]
    builds = {one.get("build") for one in (found, *found["clients"]) if one["version"] == version} - {None, ""}
    return f"{version} build {party['build']}" if len(builds) > 1 and party.get("build") else str(version)


def _table(found: dict[str, Any]) -> Table:
    state = "finished" if found["finished"] else f"round {found['k']:,} of {found['rounds']:,}"
    epoch = f", epoch {found['epoch']}" if found["epoch"] else ""
    late = f", {found['late']:,} late" if found["late"] else ""
    table = new_table(f"{found['federation']}: {state}{epoch}{late}")
    table.show_edge = table.pad_edge = False
    table.collapse_padding = True
    table.add_column("client", overflow="fold", min_width=8)  # only this column shrinks: a long name wraps
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("here", "waiting") else "right", no_wrap=True)
    for client in found["clients"]:
        table.add_row(
            Text(client["name"]),
            _here(client),
            f"{client['round']:,}",
            f"{client['lag']:,}",
            "for it" if client["waited_for"] else "",
            "" if client["silent_seconds"] is None else _span(client["silent_seconds"]),
            size(client["bytes_up"]),
            size(client["bytes_down"]),
            _epsilon(client),
        )
    return table


def _here(client: dict[str, Any]) -> str:
    if client["connected"]:
        return "yes"
    if not client["present"]:
        return "absent"
    return "away" if client["joined"] else "not yet"


def _epsilon(client: dict[str, Any]) -> str:
    """
    >>> found = (1.5, "tight"), (1.5, "bound"), (0.0001, "tight"), (0.0, "tight"), (None, "infinite"), (None, None)
    >>> [_epsilon({"epsilon": epsilon, "epsilon_is": how}) for epsilon, how in found]
    ['1.500', '<= 1.500', '<= 0.001', '0', 'infinite', '-']
    """
    epsilon, how = client["epsilon"], client["epsilon_is"]
    if epsilon is None:
        return "-" if how is None else "infinite"
    if how == "tight" and (epsilon == 0 or epsilon >= 0.001):
        return f"{epsilon:.3f}" if epsilon else "0"
    return f"<= {max(0.001, epsilon):.3f}"


def _span(seconds: float) -> str:
    """
    >>> _span(4.2), _span(150), _span(10_000), _span(1_000_000)
    ('4 s', '2 min', '3 h', '12 d')
    """
    for most, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
