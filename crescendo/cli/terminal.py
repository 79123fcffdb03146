"""How the command line prints for people: tables and sentences on stdout, a progress bar on stderr, numbers with units."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


def printer() -> Console:
    """To stdout. What its encoding cannot write (a name, a cut-off word's dots) becomes a question mark, not an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Console()


@contextlib.contextmanager
def progress_bar(*more: ProgressColumn) -> Iterator[Progress]:
    """A bar on stderr, on a terminal only; it leaves nothing behind."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), *more, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar


def new_table(title: str | None, *columns: str, left: int = 1, names: Sequence[str] = ()) -> Table:
    """Names first, which give way so that the numbers stay whole; then words in ``left`` columns, and numbers in the others.

    A title has others' names in it, which are not markup.
    """
    made = Table(box=box.SIMPLE_HEAD, title=None if title is None else Text(title), title_justify="left")
    for name in names:
        made.add_column(name, overflow="fold", min_width=8)
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place < left else "right", no_wrap=True)
    return made


def facts(title: str, rows: Iterable[Sequence[str]], *numbers: str) -> Table:
    """A line for each fact: what it is, its numbers, and words about them, which may wrap."""
    made = new_table(title, "what", *(numbers or ("value",)))
    made.add_column("")
    for row in rows:
        made.add_row(*row)
    return made


def say(console: Console, sentence: str) -> None:
    """A line of prose: a capital first, a full stop last, and others' words in it taken as they are."""
    console.print(Text(sentence[:1].upper() + sentence[1:].rstrip(".") + "."), soft_wrap=True)


def span(seconds: float) -> str:
    """
    >>> span(4.2), span(150), span(10_000), span(1_000_000)
    ('4 s', '2 min', '3 h', '12 d')
    """
    for most, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
