"""An experiment as data: jobs that any process can run, and the function that turns their outcomes into a report.

A new experiment is one file in `lab.experiments` that ends with an `Experiment`, and a line in `lab.catalogue`. A report
holds words, numbers and the points of its figures as plain JSON. It is stored; pages and figures are made from the stored report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from crescendo.errors import ConfigError

TRIAL_SEED = 1_000_000
"""The first of the seeds for tuning; no scored run uses one of them."""
MOST_SEEDS = 100  # the largest number that any experiment runs by default

Outcome = dict[str, Any]
"""A job's setting and measurements. If its data are absent: the setting, and their name as ``absent``."""


@dataclass(frozen=True)
class Job:
    """A function of some module with plain keyword arguments, so that any process can run it.

    ``call`` returns plain JSON values without wall times, the same in every run. ``data`` names the source that it needs.
    """

    call: Callable[..., Mapping[str, Any]]
    setting: Mapping[str, Any]
    data: str | None = None

    def run(self) -> Outcome:
        return {**self.setting, **self.call(**self.setting)}


@dataclass(frozen=True)
class Effort:
    """How much to run: a quick check with one seed, or everything; ``seeds`` overrides every experiment's own number.

    >>> Effort().seeds_of(3), Effort(quick=True).seeds_of(3), Effort(first_seed=8, seeds=2).seeds_of(3)
    ((0, 1, 2), (0,), (8, 9))
    """

    quick: bool = False
    seeds: int | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise ConfigError(f"--seeds must be at least 1, got {self.seeds}")
        if not 0 <= self.first_seed <= TRIAL_SEED - (self.seeds or MOST_SEEDS):
            raise ConfigError(
                f"--first-seed must be at least 0, and seeds from {TRIAL_SEED:,} on are for tuning; got {self.first_seed}"
            )

    def seeds_of(self, default: int, quick: int = 1) -> tuple[int, ...]:
        """Return the seeds of an experiment that has ``default`` of them, or ``quick`` in a quick run."""
        many = self.seeds or (quick if self.quick else default)
        return tuple(range(self.first_seed, self.first_seed + many))


@dataclass(frozen=True)
class PaperStatement:
    """A number or a sentence of the paper beside the measured value, with the number of settings in which it held.

    In ``undecided`` settings the seeds cannot tell. ``says`` is the verdict of a statement that the paper does not make.
    """

    what: str
    paper: str
    ours: str
    held: int
    tried: int
    why: str = ""
    says: str = ""
    undecided: int = 0

    @classmethod
    def judged(cls, what: str, paper: str, ours: str, verdicts: Sequence[bool | None], why: str = "") -> Self:
        """Return the statement with one verdict for each setting: True if it held, False if it failed, else None.

        >>> PaperStatement.judged("a9a", "0.84", "0.82", [True, None]).verdict
        'undecided: held in 1 of 2'
        """
        return cls(what, paper, ours, verdicts.count(True), len(verdicts), why, undecided=verdicts.count(None))

    @property
    def verdict(self) -> str:
        """
        >>> PaperStatement("rounds", "9", "9", 1, 1).verdict, PaperStatement("a9a", "0.84", "0.82 to 0.84", 2, 6).verdict
        ('reproduced', 'in part: 2 of 6')
        >>> PaperStatement("covtype", "0.84", "0.75", 0, 6).verdict, PaperStatement("real-sim", "", "", 0, 0).verdict
        ('not reproduced', 'data not present')
        >>> [PaperStatement("a9a", "0.84", "0.82", held, 6, undecided=2).verdict for held in (0, 3)]
        ['undecided: failed in 4 of 6', 'in part: 3 of 6, 2 undecided']
        """
        if self.says:
            return self.says
        if not self.tried:
            return "data not present"
        failed = self.tried - self.held - self.undecided
        if self.held == self.tried:
            return "reproduced"
        if failed == self.tried:
            return "not reproduced"
        if self.held and failed:
            return f"in part: {self.held} of {self.tried}" + (f", {self.undecided} undecided" if self.undecided else "")
        if self.undecided == self.tried:
            return "undecided"
        return f"undecided: {'held' if self.held else 'failed'} in {self.held or failed} of {self.tried}"


@dataclass(frozen=True)
class TextTable:
    """A table of the page, with its cells as printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Line:
    """Points of a panel, joined or not, with the band from ``low`` to ``high`` around them.

    ``colour`` is an index into the eight colours of `drawing`. ``style`` is "-", "--", ":" or "" for points alone; ``marker`` is
    one of matplotlib's.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    colour: int = 0
    style: str = "-"
    marker: str = ""


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ``x_axis`` and ``y_axis`` name the quantity and its unit; a scale is "linear" or "log".

    ``x_names`` are the names of x = 0, 1, 2, ..., if any. ``y_from`` cuts the axis of y off below.
    """

    title: str
    x_axis: str
    y_axis: str
    lines: tuple[Line, ...]
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_names: tuple[str, ...] = ()
    y_from: float | None = None


@dataclass(frozen=True)
class Plot:
    """One picture: its panels row by row, ``across`` in a row, and its caption on the page."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    across: int = 2


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows of an experiment. ``rule`` says how verdicts are reached; it is set before any run."""

    rule: str
    statements: tuple[PaperStatement, ...] = ()
    tables: tuple[TextTable, ...] = ()
    plots: tuple[Plot, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """``jobs(effort)`` lists the work, shorter when quick; ``findings`` turns the outcomes, in that order, into the report.

    ``where`` names the part of the paper that it repeats. A ``long`` experiment runs only by name: ``all`` leaves it out.
    """

    name: str
    title: str
    where: str
    about: str
    jobs: Callable[[Effort], Sequence[Job]]
    findings: Callable[[list[Outcome]], Findings]
    long: bool = False
