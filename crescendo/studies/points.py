"""A point of a study: one run, its digest and its outcome."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from crescendo import __version__
from crescendo.algorithms.algorithm_kinds import OURS
from crescendo.config.schema import Config
from crescendo.data import Dataset
from crescendo.errors import ConfigError, CrescendoError, Diverged, UsageError
from crescendo.objectives.model_file import library_of
from crescendo.objectives.score import ACCURACY, Score, score_of
from crescendo.privacy.mechanisms.mechanism_kinds import NONE
from crescendo.runs.result import Result
from crescendo.runs.run_events import Event, RunBegan, Sink
from crescendo.runs.simulate import simulate
from crescendo.studies.grid import Axis

FORMAT = 1  # of a stored point
Status = Literal["done", "diverged", "failed"]
_COUNTS = ("gradients", "rounds", "broadcasts", "bytes_up", "bytes_down", "waits")
_PRIVACY = ("epsilon", "delta", "sigma", "withheld")
_CURVE = ("k", "gradients", "seconds", "bytes", "loss")
_NUMBERS = ("rmse", "r2")  # of a regression's test part; a stored point has them only then


@dataclass(frozen=True, eq=False)
class StudyPoint:
    """One run to make. ``data`` replaces the records that the config names; ``part`` describes them in words.

    ``objective`` replaces the config's model with one from the calling program.
    """

    label: str
    config: Config
    algorithm: str = OURS
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Dataset | None = None
    part: str = "all"
    objective: Any = None

    @property
    def score(self) -> Score:
        return score_of(self.config.objective.kind)

    @cached_property
    def digest(self) -> str:
        """A hash that two points share only if they are the same run: config, algorithm, options, files and version."""
        asked = {
            "format": FORMAT,
            "version": __version__,
            "config": self.config.plain(),
            "algorithm": self.algorithm,
            "options": dict(self.options),
            "part": self.part,
            **({} if self.score == ACCURACY else {"score": self.score.name}),
            "files": [_fingerprint(path) for path in _files(self.config)],
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _files(config: Config) -> list[str]:
    """Return the files that a config names by path: records, and a model's code."""
    kind = config.objective.kind
    code = kind.removeprefix(f"{library_of(kind)}:").rpartition(":")[0]
    return [config.data.source, *([code] if code.endswith(".py") else [])]


def _fingerprint(path: str) -> str | None:
    place = Path(path).expanduser()
    if not place.is_file():
        return None
    about = place.stat()
    return _hashed(place, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _hashed(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a point. ``says`` is the error message of a run that failed or diverged.

    ``curve`` has one column per measure.
    """

    status: Status
    says: str = ""
    accuracy: float | None = None
    loss: float | None = None
    virtual_seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    curve: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    privacy: Mapping[str, Any] | None = None  # `_PRIVACY`
    rmse: float | None = None
    r2: float | None = None

    @classmethod
    def of(cls, result: Result) -> Self:
        rows = [{**row, "bytes": row["bytes_up"] + row["bytes_down"]} for row in result.metrics]
        found, says, last = result.privacy, result.diverged, rows[-1]
        columns = (*_CURVE, *(name for name in ("accuracy", "r2") if name in last))
        return cls(
            status="done" if says is None else "diverged",
            says=says or "",
            accuracy=_finite(result.accuracy),
            loss=_finite(result.loss),
            virtual_seconds=result.virtual_seconds,
            counts={name: int(getattr(result, name)) for name in _COUNTS},
            curve={name: [_finite(row[name]) for row in rows] for name in columns},
            privacy=None if found is None else _costs(found),
            **{name: _finite(last.get(name)) for name in _NUMBERS},
        )

    @property
    def bytes(self) -> int | None:
        """Bytes sent and received, over all clients."""
        return self.counts["bytes_up"] + self.counts["bytes_down"] if self.counts else None

    @property
    def score(self) -> float | None:
        """The score of the last model on the test part: its accuracy or, for regression, its R²."""
        return self.accuracy if self.accuracy is not None else self.r2

    @property
    def scores(self) -> Sequence[float | None]:
        """The scores along the curve."""
        accuracies = self.curve.get("accuracy", ())
        return accuracies if any(one is not None for one in accuracies) else self.curve.get("r2", accuracies)

    def to_json(self) -> dict[str, Any]:
        """Return all fields; those of a regression are absent from other outcomes."""
        return {name: value for name, value in asdict(self).items() if name not in _NUMBERS or value is not None}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(**found)

    def reached(self, target: float, measure: str) -> float | None:
        """Return the least ``measure`` (seconds, bytes, gradients) at which a model had the score ``target``, or None."""
        pairs = zip(self.scores, self.curve[measure], strict=True) if self.curve else ()
        return next((at for score, at in pairs if score is not None and score >= target), None)


def _costs(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in _PRIVACY if name in found}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def run_point(point: StudyPoint, sinks: Sequence[Sink] = ()) -> Outcome:
    """Run a point. An error is recorded in its outcome and does not stop the other points."""
    begun: list[Mapping[str, Any]] = []  # the cost of a private run, however it ends

    def began(event: Event) -> None:
        if isinstance(event, RunBegan) and (found := event.prepared.privacy) is not None:
            begun.append(_costs(found.to_json(event.prepared.names)))

    def broken(status: Status, says: str) -> Outcome:
        return Outcome(status, says, privacy=begun[0] if begun else None)

    try:
        result = simulate(
            point.config,
            point.objective,
            point.data,
            sinks=[began, *sinks],
            algorithm=point.algorithm,
            options=dict(point.options),
        )
    except Diverged as error:
        return broken("diverged", str(error))
    except CrescendoError as error:
        return broken("failed", str(error))
    except MemoryError:
        return broken("failed", "out of memory; use fewer clients or records, or a larger evaluate.every")
    return Outcome.of(result)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Records and a model in memory, in place of those that the run file names; None keeps the run file's."""

    data: Dataset | None = None
    objective: Any = None

    @cached_property
    def mark(self) -> str:
        """A fingerprint of these records for the point's digest; empty if the run file names the records."""
        if self.data is None:
            return ""
        data, test = self.data, self.data.test
        parts = (data.train.fingerprint(), "" if test is None else test.fingerprint(), data.classes)
        columns = [(name, column.tolist()) for name, column in sorted(data.columns.items())]
        return f" in memory {hashlib.sha256(repr((parts, columns)).encode()).hexdigest()}"

    def check_out(self, out: Path | str | None) -> None:
        """Raise UsageError if ``out`` is not a path."""
        if out is not None and not isinstance(out, str | os.PathLike):
            raise UsageError(f"out must be the path of a folder, not of type {type(out).__name__}")

    @property
    def said(self) -> str:
        """Comment lines above a run file that does not name every input of the run."""
        lines = []
        if self.data is not None:
            lines.append(
                "# The records were in memory and are in no file: pass them again as data=.. along with this run file"
            )
        if self.objective is not None:
            name = str(getattr(self.objective, "name", "") or type(self.objective).__name__)
            lines += [
                f"# The model was in memory ({name:.80}), and objective.kind does not name it: pass it again as objective=..",
                "# Such a model has no fingerprint, so no run was stored: the same call makes all of them again",
            ]
        return "".join(f"{line}\n" for line in lines)

    def check_axes(self, axes: Sequence[Axis]) -> None:
        """Raise ConfigError for a key that would change nothing, because its section is replaced from memory."""
        for section, there, what in (
            ("data", self.data, "the records are"),
            ("objective", self.objective, "the model is"),
        ):
            named = [axis.key for axis in axes if axis.key.partition(".")[0] == section]
            if there is not None and named:
                raise ConfigError(
                    f"over has {named[0]}, but {what} in memory and the same in every run; sweep a run file that names "
                    "them, or call sweep once for each"
                )

    def check_private(self, base: Config, config: Config) -> None:
        """Raise ConfigError for a private run if a look at the records chose the defaults of ``base``."""
        if self.data is not None and base.privacy.mechanism == NONE != config.privacy.mechanism:
            raise ConfigError(
                f"privacy.mechanism = {config.privacy.mechanism} comes after a look at the records chose the defaults; give "
                "mechanism, records and classes as keywords, and sweep over the rest"
            )


NOTHING = InMemory()


def withheld_of(outcomes: Iterable[Outcome]) -> str | None:
    """Return why runs state no epsilon if a look at the records chose their terms; None if they state one or are not private."""
    return next((one.privacy["withheld"] for one in outcomes if one.privacy and "withheld" in one.privacy), None)
