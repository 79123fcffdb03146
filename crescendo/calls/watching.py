"""Progress of a call: one line on a terminal or in a notebook during a run, and nothing in a pipe, a file or a test."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from crescendo.errors import UsageError
from crescendo.runs.run_events import Event, ModelsMeasured, RoundCompleted, RunBegan, WithoutNoise
from crescendo.studies.study_events import PointBegan, PointWent, StudyEvent

Clock = Callable[[], float]
_QUIET = 1.0  # seconds before the first line: a shorter run needs no progress
_APART = 0.25  # seconds between two lines
_WIDTH = 16  # of the bar


class Screen(Protocol):
    """A display of one line that is updated in place."""

    def show(self, line: str) -> None: ...

    def clear(self) -> None: ...


class _Terminal:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
        self._live.start()

    def show(self, line: str) -> None:
        self._live.update(self._text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def clear(self) -> None:
        self._live.stop()


class _Notebook:
    def __init__(self) -> None:
        from IPython.display import display

        shown: Any = display  # IPython's function is untyped
        self._handle = shown({"text/plain": ""}, raw=True, display_id=True)

    def show(self, line: str) -> None:
        self._handle.update({"text/plain": line}, raw=True)

    def clear(self) -> None:
        self.show("")


def in_notebook() -> bool:
    """Return True if the program runs in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _screen() -> Screen:
    return _Notebook() if in_notebook() else _Terminal()


class CallWatch:
    """Listens to a run or a study and shows its progress after the first second.

    >>> class Printed:
    ...     def show(self, line): print(line)
    ...     def clear(self): print("(gone)")
    >>> seconds = iter([0.0, 0.5, 2.0])
    >>> watch = CallWatch(Printed, clock=lambda: next(seconds))
    >>> for done in (10, 20):
    ...     watch.tell("training", done, 40)
    training ████████░░░░░░░░ 20 of 40, about 2 s more
    >>> watch.close()
    (gone)
    """

    def __init__(self, screen: Callable[[], Screen] | None = None, clock: Clock = time.monotonic) -> None:
        self._make, self._clock = screen or _screen, clock
        self._screen: Screen | None = None
        self._began = self._last = clock()
        self._since: tuple[float, float] | None = None  # the start of the current phase
        self._doing, self._news, self._before = "", "", ""

    def tell(self, doing: str, done: float, total: float, unit: str = "") -> None:
        """Show that ``done`` of ``total`` of the phase ``doing`` is complete."""
        now = self._clock()
        if doing != self._doing:
            self._doing, self._since = doing, (self._began if not self._doing else now, 0.0)
        if now - self._began < _QUIET or (self._screen is not None and now - self._last < _APART):
            return
        self._last = now
        self._screen = self._make() if self._screen is None else self._screen
        full = round(_WIDTH * min(1.0, done / max(total, 1)))
        bar = "█" * full + "░" * (_WIDTH - full)
        self._screen.show(
            f"{self._before}{doing} {bar} {unit}{done:,.0f} of {total:,.0f}{self._news}{self._left(now, done, total)}"
        )

    def _left(self, now: float, done: float, total: float) -> str:
        if self._since is None or not 0 < done < total:
            return ""
        return f", about {in_short((now - self._since[0]) * (total - done) / done)} more"

    def accounting(self, done: int, total: int) -> None:
        """Show the accounting of a private run, before its first round."""
        self.tell("accounting", done, total)

    def heard(self, event: Event) -> None:
        """Handle an event of a run."""
        doing = "training"
        if isinstance(event, WithoutNoise):
            doing, event = "again without noise", event.event
        match event:
            case RunBegan():
                self._news = ""
            case ModelsMeasured(rows) if rows and isinstance(rows[-1].get("accuracy"), float):
                self._news = f", accuracy {rows[-1]['accuracy']:.3f}"
            case RoundCompleted(moment, rounds):
                self.tell(doing, moment.k, rounds, "round ")
            case _:
                pass

    def studied(self, event: StudyEvent) -> None:
        """Handle an event of a comparison or sweep."""
        match event:
            case PointBegan(_, number, total):
                self._before = f"run {number:,} of {total:,}: "
            case PointWent(inner):
                self.heard(inner)
            case _:
                pass

    def close(self) -> None:
        """Remove the line from the screen."""
        if self._screen is not None:
            self._screen.clear()


def in_short(seconds: float) -> str:
    """
    >>> in_short(2.2), in_short(75), in_short(10_000)
    ('2 s', '1 min', '2.8 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextlib.contextmanager
def watched(progress: Any) -> Iterator[CallWatch | None]:
    """Yield a watch if there is a terminal or a notebook or ``progress`` is True, and None if ``progress`` is False.

    If ``progress`` is a function, it receives the progress of the accounting, and nothing is shown.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise UsageError(f"progress is True, False or a function of (done, total), not {progress!r:.40}")
    shown = progress is True or (progress is None and (in_notebook() or _is_terminal()))
    watch = CallWatch() if shown else None
    try:
        yield watch
    finally:
        if watch is not None:
            watch.close()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # the program has closed stderr
        return False
