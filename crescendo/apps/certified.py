"""The schedule of a run file, certified, whether the file is to be simulated or served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crescendo.apps.config import Config
from crescendo.apps.runfile import read, read_raw
from crescendo.core.setup import Terms
from crescendo.schedules import Certificate


def read_either(path: Path, overrides: Sequence[str]) -> Config:
    """A run file to be simulated, or one that can only be served: it has [serve], and no records of its own."""
    raw = read_raw(path, overrides)
    if "serve" in raw:
        from crescendo.apps.terms import ELSEWHERE, read_served

        data = raw.get("data", {"source": ELSEWHERE})
        if isinstance(data, dict) and data.get("source") == ELSEWHERE:
            return read_served(path, list(overrides))
    return read(path, overrides)


def certified(config: Config) -> tuple[Certificate, Terms]:
    """What `run` or `serve` would start from, or the sentence with which they would refuse it."""
    from crescendo.apps.build import prepare
    from crescendo.apps.terms import ELSEWHERE, build_terms, terms_text

    if config.data.source == ELSEWHERE:
        agreed = build_terms(terms_text(config))
        return agreed.schedule, agreed.terms
    prepared = prepare(config)
    return prepared.certificate, prepared.terms
