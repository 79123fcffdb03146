"""An experiment as data: jobs that any process can run, and the report that is made of what they gave.

A new experiment is one file in `lab.experiments` that ends with an `Experiment`, and a line in
`lab.catalogue`. A report holds words, numbers and what to draw, all of it plain JSON: it is stored, and pages and
figures are made from what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from crescendo.errors import ConfigError

TRIAL_SEED = 1_000_000
"""The first of the seeds that options are tuned with: no run that is scored has one of them."""
MOST_SEEDS = 100  # that any experiment runs by itself

Outcome = dict[str, Any]
"""A job's setting and what it measured; of data that are not there only the setting and ``absent``, the name of the data."""


@dataclass(frozen=True)
class Job:
    """A piece of work: a function of some module with plain keyword arguments, so that any process can run it.

    ``call`` returns plain JSON values without wall times, the same in every run. ``data`` names the source that it needs.
    """

    call: Callable[..., Mapping[str, Any]]
    setting: Mapping[str, Any]
    data: str | None = None

    def run(self) -> Outcome:
        return {**self.setting, **self.call(**self.setting)}


@dataclass(frozen=True)
class Effort:
    """How much to run: a quick check with one seed, or everything; ``seeds``, if given, overrides every experiment's number.

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
        """The seeds of an experiment that has ``default`` of them, or ``quick`` in a quick run."""
        many = self.seeds or (quick if self.quick else default)
        return tuple(range(self.first_seed, self.first_seed + many))


@dataclass(frozen=True)
class PaperStatement:
    """A number or a sentence of the paper beside what was measured: of the settings tried, it held in some and failed in others.

    In ``undecided`` settings the seeds cannot tell. Where the paper says nothing ``says`` is the verdict, in words of its own.
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
        """The statement with a verdict for each setting: it held, it failed, or None.

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
    """A table of the page, its cells as they are printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Line:
    """Points of a panel, joined or not, with the band from ``low`` to ``high`` around them.

    ``colour`` counts the eight colours of `drawing`; ``style`` is "-", "--", ":" or "" for points alone; ``marker`` is one of
    matplotlib's.
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
    """One pair of axes. ``x_axis`` and ``y_axis`` say what is drawn and in what unit; a scale is "linear" or "log".

    ``x_names``, if there are any, are the names of x = 0, 1, 2, ... The axis of y begins at ``y_from``, if that is given: what
    lies below is not shown.
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
    """One picture: its panels row by row, ``across`` in a row, and the caption that stands under it on the page."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    across: int = 2


@dataclass(frozen=True)
class Findings:
    """What an experiment found: everything that the page says of it. ``rule`` is how verdicts are come by, set before any run."""

    rule: str
    statements: tuple[PaperStatement, ...] = ()
    tables: tuple[TextTable, ...] = ()
    plots: tuple[Plot, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """``jobs(effort)`` lists the work, fewer and shorter pieces when quick; ``findings`` is given their outcomes in that order.

    ``where`` says what of the paper it repeats. One that is ``long`` runs only when it is named: ``all`` leaves it out.
    """

    name: str
    title: str
    where: str
    about: str
    jobs: Callable[[Effort], Sequence[Job]]
    findings: Callable[[list[Outcome]], Findings]
    long: bool = False
