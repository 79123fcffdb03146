"""Terminal output of the command line: tables and sentences on stdout, a progress bar on stderr."""

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


@contextlib.contextmanager
def progress_bar(*more: ProgressColumn) -> Iterator[Progress]:
    """Show a progress bar on stderr, on a terminal only; it disappears at the end."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), *more, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar


def new_table(title: str | None, *columns: str, left: int = 1, names: Sequence[str] = ()) -> Table:
    """Return a table with the columns ``names``, then ``left`` columns of words, then columns of numbers.

    On a narrow terminal only the columns of names shrink. The title may contain users' names, so it is not markup.
    """
    made = Table(box=box.SIMPLE_HEAD, title=None if title is None else Text(title), title_justify="left")
    for name in names:
        made.add_column(name, overflow="fold", min_width=8)
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place < left else "right", no_wrap=True)
    return made


class Printer(Console):
    """Prints to stdout. A letter that the encoding lacks becomes a question mark instead of an error."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        super().__init__()

    def facts(self, title: str, rows: Iterable[Sequence[str]], *numbers: str) -> None:
        """Print a table with a line for each fact: its name, its numbers, and a comment, which may wrap."""
        table = new_table(title, "what", *(numbers or ("value",)))
        table.add_column("")
        for row in rows:
            table.add_row(*map(Text, row))  # names in it are not markup
        self.print(table)

    def say(self, sentence: str) -> None:
        """Print a sentence with a capital and a full stop. Text in it that came from users is not markup."""
        self.print(Text(sentence[:1].upper() + sentence[1:].rstrip(".") + "."), soft_wrap=True)
