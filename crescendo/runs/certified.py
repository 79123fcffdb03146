"""The schedule of a run file, certified, whether the file is to be simulated or served."""

from __future__ import annotations

from crescendo.config.loading import ELSEWHERE
from crescendo.config.schema import Config
from crescendo.config.to_terms import terms_and_cost
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.privacy.planning.guarantee import Guarantee
from crescendo.runs.prepare import prepare


def certified(config: Config) -> tuple[Agreement, Guarantee | None]:
    """What `run` or `serve` would start from, or the sentence with which they would refuse it."""
    if config.data.source == ELSEWHERE:
        text, privacy = terms_and_cost(config)
        return build_terms(text), privacy
    prepared = prepare(config)
    return prepared.agreement, prepared.privacy
