"""The `sweep` call: a run file over a grid of its keys, with each point's run stored as soon as it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.errors import ConfigError, CrescendoError
from crescendo.objectives.score import ACCURACY, R2, Score
from crescendo.runs import result_view
from crescendo.runs.added_runs import StudyTotal
from crescendo.studies.contestants import measure_of
from crescendo.studies.grid import Axis, axes_of, check_apart, combinations, overrides_of
from crescendo.studies.intervals import Interval, limits, mean_of
from crescendo.studies.point_store import opened
from crescendo.studies.points import NOTHING, InMemory, Outcome, StudyPoint, withheld_of
from crescendo.studies.study_events import Listener, run_all, unheard
from crescendo.studies.views import sweep_view

SEED = "run.seed"
PAGES = ("sweep.html", "sweep.csv")


@dataclass(frozen=True, eq=False)
class SweptPoint:
    """A value on every axis, and the outcome of the run."""

    values: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class SweptGroup:
    """Points that differ only in the seed."""

    values: tuple[str, ...]  # on every axis but the seed's
    outcomes: tuple[Outcome, ...]

    @property
    def clean(self) -> bool:
        """True if every run of the group ended without diverging."""
        return all(one.status == "done" for one in self.outcomes)

    def mean(self, measure: str) -> Interval | None:
        """Return the mean of one of `_MEASURES` or of a count; None if a run lacks it."""
        return mean_of(
            [one.counts.get(measure) if measure not in _MEASURES else getattr(one, measure) for one in self.outcomes],
            limits(measure_of(self.outcomes, measure)),
        )


_MEASURES = ("score", "accuracy", "r2", "rmse", "loss", "virtual_seconds", "bytes")


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Every point of a grid, in grid order. ``run_file`` is the full run file of the first point."""

    name: str
    axes: tuple[Axis, ...]
    points: tuple[SweptPoint, ...]
    run_file: str
    out: Path | None = None

    def __repr__(self) -> str:
        return sweep_view.in_a_line(self)

    def _repr_html_(self) -> str:
        return sweep_view.as_html(self)

    def summary(self) -> str:
        """Return one line per setting."""
        return sweep_view.summary(self)

    @property
    def history(self) -> Any:
        """All runs, one per row: a pandas DataFrame if pandas is installed, otherwise a list of dictionaries."""
        return result_view.history([{**one.pop("values"), **one} for one in self.as_json()["points"]])

    def plot(self) -> Any:
        """Plot the mean of each setting with its interval over seeds, as a plotly figure."""
        return sweep_view.plot(self)

    @property
    def withheld(self) -> str | None:
        """Why no epsilon is stated, if a look at the records chose the privacy terms."""
        return withheld_of(point.outcome for point in self.points)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(axis.key for axis in self.axes)

    @property
    def varied(self) -> tuple[str, ...]:
        """The keys except the seed."""
        return tuple(key for key in self.keys if key != SEED)

    @property
    def measure(self) -> Literal["score", "loss"]:
        """The measure that ranks points: the score if there is one, otherwise the loss."""
        return "loss" if self.score is None else "score"

    @property
    def score(self) -> Score | None:
        """The score of the points, accuracy or R²; None without one, or with both, which cannot be ranked together."""
        kinds = {"accuracy": ACCURACY, "r2": R2}
        found = [one for name, one in kinds.items() if any(getattr(p.outcome, name) is not None for p in self.points)]
        return found[0] if len(found) == 1 else None

    @property
    def words(self) -> str:
        """The measure in words."""
        return "loss" if self.score is None else self.score.words

    def groups(self) -> list[SweptGroup]:
        """Return one group for each combination of the keys except the seed."""
        found: dict[tuple[str, ...], list[Outcome]] = {}
        for point in self.points:
            kept = tuple(value for key, value in zip(self.keys, point.values, strict=True) if key != SEED)
            found.setdefault(kept, []).append(point.outcome)
        return [SweptGroup(values, tuple(outcomes)) for values, outcomes in found.items()]

    def best(self) -> SweptGroup | None:
        """Return the group with the best mean among those whose runs all ended well; None if there is no such group."""
        means = [(group.mean(self.measure), group) for group in self.groups() if group.clean]
        sign = 1 if self.measure == "score" else -1
        known = [(sign * mean.mean, group) for mean, group in means if mean is not None]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    @property
    def total(self) -> StudyTotal | None:
        """The privacy cost of all private runs together; None if no run was private."""
        return StudyTotal.of(point.outcome.privacy for point in self.points)

    def count(self, status: str) -> int:
        return sum(point.outcome.status == status for point in self.points)

    def as_json(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "points": [
                {"values": dict(zip(self.keys, point.values, strict=True)), **_told(point.outcome)}
                for point in self.points
            ],
            "privacy_total": None if (total := self.total) is None else total.to_json(),
            **{status: self.count(status) for status in ("done", "diverged", "failed")},
            "out": None if self.out is None else str(self.out),
        }


def _told(outcome: Outcome) -> dict[str, Any]:
    return {name: value for name, value in outcome.to_json().items() if name != "curve"}


def sweep(
    config: Config | Path | str | Mapping[str, Any],
    over: Sequence[str],
    *,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    memory: InMemory = NOTHING,
) -> Sweep:
    """Run a config once for every combination of the values in ``over``, for example ``["clients.count=2,5",
    "run.seed=0..4"]``.

    With ``out``, the folder gets a file for every finished point, then ``sweep.csv`` and ``sweep.html``. The same
    call on the same folder resumes where it stopped. ``memory`` replaces the records and the model that the config
    names, the same in every run; `crescendo.sweep` accepts them directly.
    """
    axes = axes_of(over)
    memory.check_out(out)
    memory.check_axes(axes)
    check_apart(axes, overrides)
    made = [(values, _made(config, axes, values, overrides, memory)) for values in combinations(axes)]
    points = [point for _, point in made if isinstance(point, StudyPoint)]
    if not points:  # an unknown key, for example: no point can run
        raise ConfigError(str(made[0][1]))
    folder = Path(out) if out is not None else None
    with opened(folder, "sweep", PAGES, keeps=memory.objective is None) as store:
        outcomes = dict(zip((point.digest for point in points), run_all(points, store, tell), strict=True))
        swept = [
            SweptPoint(values, outcomes[one.digest] if isinstance(one, StudyPoint) else Outcome("failed", str(one)))
            for values, one in made
        ]
        found = Sweep(
            points[0].config.data.source, tuple(axes), tuple(swept), memory.said + points[0].config.to_toml(), folder
        )
        if folder is not None:
            from crescendo.studies.sweep_files import write_sweep

            write_sweep(found, folder, standalone)
    return found


def _made(
    config: Config | Path | str | Mapping[str, Any],
    axes: Sequence[Axis],
    values: Sequence[str],
    overrides: Sequence[str],
    memory: InMemory,
) -> StudyPoint | CrescendoError:
    """Return the run of a point, or the error if its values are invalid together."""
    changes = overrides_of(axes, values)
    try:
        made = read(config, [*overrides, *changes])
        if memory.data is not None:
            memory.check_private(read(config, overrides), made)
        return StudyPoint(
            " ".join(changes), made, data=memory.data, part=f"all{memory.mark}", objective=memory.objective
        )
    except ConfigError as error:
        return error
