"""Printers of `sweep` and `compare`: a progress bar during the runs, tables at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import typer
from rich.markup import escape
from rich.progress import TextColumn
from rich.text import Text

from crescendo import interrupts
from crescendo.cli.forecast import Forecast, RunForecast, on_stderr
from crescendo.cli.terminal import Printer, new_table, progress_bar
from crescendo.report.numbers import number, size
from crescendo.runs.added_runs import StudyTotal
from crescendo.runs.run_events import RoundCompleted
from crescendo.studies.comparing import Comparison
from crescendo.studies.study_events import PointBegan, PointEnded, PointWent, StudyEvent
from crescendo.studies.study_files import bounded, shown_sigma
from crescendo.studies.sweeping import Sweep
from crescendo.studies.verdicts import summary
from crescendo.studies.views.sweep_view import troubles

MOST_ROWS = 40


class Progress:
    """Two progress bars on a terminal: the runs of the study, and the rounds of the current run."""

    def __init__(self) -> None:
        self._ended = self._kept = self._total = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._bar = self._stack.enter_context(progress_bar(TextColumn("{task.fields[news]}")))
        self._runs = self._bar.add_task("Runs", total=None, news="")
        self._rounds = self._bar.add_task("This run", total=None, news="")
        say = on_stderr(self._bar)
        self._run_forecast = RunForecast(say, "this run", "its first rounds")
        self._forecast = Forecast(say, "the study", "its first runs")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(self, event: StudyEvent) -> None:
        interrupts.check()
        match event:
            case PointBegan(point, number, total):
                self._total = total
                self._bar.update(self._runs, completed=number - 1, total=total, news=f"{number:,} of {total:,}")
                self._bar.reset(self._rounds, total=None, description="This run", news=escape(cut_short(point.label)))
            case PointWent(went):
                self._run_forecast(went)
                if isinstance(went, RoundCompleted):
                    self._bar.update(self._rounds, completed=went.moment.k, total=went.rounds)
            case PointEnded(_, _, kept):
                self._ended += 1
                self._kept += kept
                if not kept:
                    self._forecast.heard(self._ended, self._total)
                self._bar.advance(self._runs)

    def stopped(self, folder: Path) -> None:
        """Print how many runs an interrupted study has kept."""
        self._stack.close()
        if self._ended:
            typer.echo(
                f"{self._ended:,} of {self._total:,} runs are kept in {folder}; the same command resumes from there",
                err=True,
            )


class StudyPrinter(Printer):
    """Prints the results of a study and the path of its page."""

    def sweep(self, found: Sweep) -> None:
        table = new_table(found.name, "runs", found.words, "rounds", "bytes", left=0, names=_short(found.varied))
        table.add_column("went wrong")
        groups = found.groups()
        for group in groups[:MOST_ROWS]:
            wrong = [one.status for one in group.outcomes if one.status != "done"]
            rounds, traffic = group.mean("rounds"), group.mean("bytes")
            table.add_row(
                *map(Text, group.values),
                f"{len(group.outcomes)}",
                bounded(group.mean(found.measure)),
                "none" if rounds is None else f"{rounds.mean:,.6g}",
                "none" if traffic is None else size(traffic.mean),
                ", ".join(f"{wrong.count(status)} {status}" for status in dict.fromkeys(wrong)),
            )
        self.print(table)
        if len(groups) > MOST_ROWS:
            self.say(f"and {len(groups) - MOST_ROWS:,} more settings, in the page")
        for sentence in troubles(found):
            self.say(sentence)
        self._total(found.total)
        if found.withheld is not None:
            self.say(found.withheld)
        if found.out is not None:
            self.print(Text(f"Page: {found.out}/sweep.html, and every run in sweep.csv"), soft_wrap=True)

    def comparison(self, found: Comparison) -> None:
        private = found.equal != "gradients"
        columns = [
            found.score.words,
            "rounds",
            "bytes",
            *(["eps", "sigma"] if private else ["seconds"]),
        ]  # 80 letters wide
        table = new_table(found.name, "", *columns, "to target" if found.target is not None else "")
        if any(one.count("done") < len(one.outcomes) for one in found.contestants):
            table.add_column("wrong")
        for one in found.contestants:
            rounds, traffic, seconds = (one.mean(name) for name in ("rounds", "bytes", "virtual_seconds"))
            span = "none" if seconds is None else f"{seconds.mean:,.0f}"
            wrong = len(one.outcomes) - one.count("done")
            reached = [] if found.target is None else one.reached(found.target, "seconds")
            known = [value for value in reached if value is not None]
            table.add_row(
                one.name,
                bounded(one.mean("score")),
                "none" if rounds is None else f"{rounds.mean:,.6g}",
                "none" if traffic is None else size(traffic.mean),
                *(
                    [number(one.epsilon, ".4g") if one.epsilon is not None else "hidden", shown_sigma(one.sigma)]
                    if private
                    else [span]
                ),
                _reached(known, len(reached)),
                *([f"{wrong} of {len(one.outcomes)}"] if wrong else []),
            )
        self.print(table)
        verdicts = found.verdicts()
        for told in verdicts:
            ratio = "" if told.seconds.interval is None else f", {told.rival}'s over {found.ours.name}'s:"
            says = f"{found.score.words} {told.score.says}; time to target{ratio} {told.seconds.says}"
            self.print(Text(f"against {told.rival}: {says}"), soft_wrap=True)
        self.say(summary(verdicts, found.ours.name, len(found.seeds), found.score))
        if found.target is not None:
            self.say(f"the target is {found.score.words} {found.target:.4g} on the test part; seconds are virtual")
        if len(found.seeds) > 1:
            self.say(f"intervals are 95% t-intervals over {len(found.seeds)} seeds")
        if not found.trials:
            self.say(
                "no algorithm was tuned, and one step size does not suit all: --tune N gives each the same number of trials"
            )
        self._total(found.total)
        if found.withheld is not None:
            self.say(found.withheld)
        for one in found.contestants:
            if one.tuned is not None and one.tuned.at_edge:
                self.say(one.tuned.doubt(one.name))
        if found.out is not None:
            self.print(Text(f"Page: {found.out}/comparison.html, and every run in comparison.csv"), soft_wrap=True)

    def _total(self, total: StudyTotal | None) -> None:
        if total is not None:
            self.say(total.sentence())


def cut_short(label: str, most: int = 48) -> str:
    """
    >>> cut_short("fedavg seed 3"), cut_short("x" * 60, 10)
    ('fedavg seed 3', 'xxxxxxxx..')
    """
    return label if len(label) <= most else f"{label[: most - 2]}.."


def _reached(known: Sequence[float], seeds: int) -> str:
    """Return the mean if every seed reached the target, or how many did.

    >>> _reached([1.0, 3.0], 2), _reached([1.0], 2), _reached([], 0)
    ('2', '1 of 2', '')
    """
    return (
        f"{sum(known) / len(known):,.0f}"
        if known and len(known) == seeds
        else f"{len(known)} of {seeds}"
        if seeds
        else ""
    )


def _short(keys: Sequence[str]) -> list[str]:
    """Return the last part of each key, or the whole keys if two last parts are equal.

    >>> _short(["clients.count", "run.seed"]), _short(["timing.crash.every", "evaluate.every"])
    (['count', 'seed'], ['timing.crash.every', 'evaluate.every'])
    """
    last = [key.rpartition(".")[2] for key in keys]
    return last if len(set(last)) == len(last) else list(keys)
