"""Forecast: announces once, early, that a command will take long, judged by its first part. It is silent on short commands."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.progress import Progress
from rich.text import Text

from crescendo.runs.run_events import Event, RoundCompleted, RunBegan

Clock = Callable[[], float]

LONG = 600.0  # seconds; shorter work is not announced
MEASURED = 2.0  # seconds of work over which the speed is measured
_UNITS = ((365.25 * 86400, "year"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def in_words(seconds: float) -> str:
    """
    >>> in_words(113_000), in_words(5400), in_words(90 * 86400), in_words(3.2e13), in_words(45)
    ('31 hours', '90 minutes', '90 days', '1,014,019 years', '45 seconds')
    """
    size, unit = next((one for one in _UNITS if seconds >= 2 * one[0]), _UNITS[-1])
    return f"{round(seconds / size):,} {unit}s"


class Forecast:
    """Takes progress reports and announces once how long the rest will take, if that is long.

    Measuring begins at the first report, since the work before it (compiling, reading, accounting) is not repeated.

    >>> hours = iter([0.0, 1.0, 4.0])
    >>> forecast = Forecast(print, "this run", "its first rounds", clock=lambda: next(hours))
    >>> for done in (10, 20, 50):
    ...     forecast.heard(done, 1_000_000)
    this run will take about 28 hours more at the speed of its first rounds; Ctrl-C stops it
    """

    def __init__(self, say: Callable[[str], None], what: str, speed_of: str, clock: Clock = time.monotonic) -> None:
        self._say, self._what, self._speed_of, self._clock = say, what, speed_of, clock
        self._first: tuple[float, float] | None = None  # the time of the first report, and the work done by then
        self._said = False
        self._gradients = 0

    def heard(self, done: float, total: float) -> None:
        if self._said or not 0 < done < total:
            return
        now = self._clock()
        if self._first is None:
            self._first = (now, done)
            return
        began, before = self._first
        if now - began >= MEASURED and done > before:
            left = (now - began) * (total - done) / (done - before)
            if left >= LONG:
                self._said = True
                self._say(
                    f"{self._what} will take about {in_words(left)} more at the speed of {self._speed_of}; Ctrl-C stops it"
                )


def on_stderr(bar: Progress) -> Callable[[str], None]:
    """Return a function that prints a line on stderr, above the progress bar if there is one."""
    return lambda sentence: bar.console.print(Text(f"crescendo: {sentence}"), soft_wrap=True)


class RunForecast(Forecast):
    """A forecast made from the events of a run."""

    def __call__(self, event: Event) -> None:
        match event:
            case RunBegan(prepared):
                self._first, self._gradients = None, prepared.working.before(prepared.working.rounds)
            case RoundCompleted(moment, _):
                self.heard(moment.gradients, self._gradients)
