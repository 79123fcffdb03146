"""`crescendo check`: verifies the paper's theorem about the algorithm on a recorded run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from crescendo.config.loading import read
from crescendo.core.terms import Terms
from crescendo.errors import CrescendoError, DataError
from crescendo.runs.folder import require_run
from crescendo.runs.prepare import prepare
from crescendo.simulator.consistency import Consistency
from crescendo.simulator.trace import Trace
from crescendo.simulator.trace_soundness import require_sound

_CONFIG, _TRACE = "config.toml", "trace.npz"


@dataclass(frozen=True)
class RunCheck:
    """The result of checking a run against Paper [thmalg]; ``names`` are the clients' names."""

    run: Path
    rule: str
    names: tuple[str, ...]
    found: Consistency

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read a run's folder, make its terms again from its config and data, and check every gradient of its trace."""
        require_run(folder, (_CONFIG, _TRACE), "check")
        trace = Trace.load(folder / _TRACE)
        terms, names = _agreed(folder)
        require_sound(trace, terms)
        rule = f"{terms.ahead} rounds ahead" if terms.tau is None else repr(terms.tau)
        return cls(folder, rule, names, Consistency.of(trace, terms))

    @property
    def holds(self) -> bool:
        return self.found.wrong == 0

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        found = self.found
        left_out = f"; {len(found.excluded):,} updates of absent clients are excluded" if found.excluded else ""
        if found.first is not None:
            others = f" ({found.wrong:,} gradients in all)" if found.wrong > 1 else ""
            return f"the run breaks its delay bound: {found.first}{others}{left_out}"
        return (
            f"the run is consistent with its delay bound: each of {found.gradients:,} gradients was computed on a model with all "
            f"the updates that the bound requires; the largest delay was {found.delay:,} at gradient {found.label:,}, where "
            f"{found.allowed:,.6g} was allowed{left_out}"
        )

    def to_json(self) -> dict[str, Any]:
        found = self.found
        return {
            "run": str(self.run),
            "holds": self.holds,
            "verdict": self.verdict,
            "rule": self.rule,
            "gradients": found.gradients,
            "largest_delay": {"delay": found.delay, "label": found.label, "allowed": found.allowed},
            "violations": found.wrong,
            "first_violation": None if found.first is None else asdict(found.first),
            "excluded": [{"round": i, "client": self.names[c]} for i, c in found.excluded],
        }


def _agreed(folder: Path) -> tuple[Terms, tuple[str, ...]]:
    """Make a run's terms and names again from its config and data: the terms depend on the split of the data."""
    try:
        prepared = prepare(read(folder / _CONFIG))
    except CrescendoError as error:
        raise DataError(
            f"the terms of {folder} cannot be made again from its {_CONFIG} ({error}); its data must be where they were"
        ) from error
    return prepared.terms, prepared.names
