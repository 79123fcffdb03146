"""The schedule of a run file, certified, whether the file is to be simulated or served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crescendo.config.schema import Config
from crescendo.config.loading import read, read_raw
from crescendo.core.terms import Terms
from crescendo.schedules import Certificate

if TYPE_CHECKING:
    from crescendo.runs.guarantee import Guarantee


def read_either(path: Path, overrides: Sequence[str]) -> Config:
    """A run file to be simulated, or one that can only be served: it has [serve], and no records of its own."""
    raw = read_raw(path, overrides)
    if "serve" in raw:
        from crescendo.federation.agreement import ELSEWHERE, read_served

        data = raw.get("data", {})
        if isinstance(data, dict) and data.get("source", ELSEWHERE) == ELSEWHERE:
            return read_served(path, list(overrides))
    return read(path, overrides)


@dataclass(frozen=True, eq=False)
class Certified:
    """What a run would start from."""

    certificate: Certificate
    terms: Terms
    names: tuple[str, ...]
    privacy: Guarantee | None


def certified(config: Config) -> Certified:
    """What `run` or `serve` would start from, or the sentence with which they would refuse it."""
    from crescendo.runs.prepare import prepare
    from crescendo.federation.agreement import ELSEWHERE, build_terms, terms_and_cost

    if config.data.source == ELSEWHERE:
        text, privacy = terms_and_cost(config)
        agreed = build_terms(text)
        return Certified(agreed.schedule, agreed.terms, agreed.names, privacy)
    prepared = prepare(config)
    return Certified(prepared.certificate, prepared.terms, prepared.names, prepared.privacy)
