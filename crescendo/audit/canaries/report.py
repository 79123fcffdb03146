"""Report of a run with canaries: lower bounds on epsilon, for comparison with the certified one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from crescendo.audit.canaries.families import LessNoise, any_mechanism
from crescendo.audit.canaries.guesses import Guesses
from crescendo.audit.canaries.separate_trials import Trials


@dataclass(frozen=True)
class CanaryReport:
    """Plain data. All three lower bounds together hold with probability ``confidence``.

    ``lower`` holds for a run that is as certified except for its noise, ``lower_any`` for any run; ``lower_apart`` is ``lower``
    if no canary affects another's score. ``p`` bounds the chance of this many right guesses if the certificate is true. The
    client had ``records`` real records, and ``inside`` of the canaries were added.
    """

    mechanism: str
    name: str
    kind: str
    claimed: float
    delta: float
    confidence: float
    canaries: int
    inside: int
    records: int
    guesses: int
    right: int
    p: float
    lower: float
    lower_any: float
    lower_apart: float

    @classmethod
    def of(cls, guesses: Guesses, trials: Trials, family: LessNoise, confidence: float, **facts: Any) -> CanaryReport:
        """Compute the bounds from these guesses."""
        level = cls.level(confidence)
        return cls(
            delta=family.delta,
            confidence=confidence,
            canaries=guesses.canaries,
            guesses=guesses.made,
            right=guesses.right,
            p=guesses.p_value(family.certified),
            lower=family.bound(guesses, level),
            lower_any=any_mechanism(guesses, level, family.delta),
            lower_apart=family.bound(trials, level),
            **facts,
        )

    @staticmethod
    def level(confidence: float) -> float:
        """Return the probability with which each of the three bounds may be wrong."""
        return (1 - confidence) / 3

    @property
    def share(self) -> float:
        """The lower bound as a share of the certified epsilon."""
        return self.lower / self.claimed

    @property
    def share_apart(self) -> float:
        """The share if no canary affects another's score."""
        return self.lower_apart / self.claimed

    @property
    def findings(self) -> tuple[str, ...]:
        """The contradictions to the certificate."""
        apart = self.lower_apart if self.kind == "gradients" else 0.0  # records share an intercept
        highest = max(self.lower, self.lower_any, apart)
        if highest <= self.claimed:
            return ()
        return (f"the canaries show an epsilon of {highest:.4g} or more, and {self.claimed:.4g} is certified",)

    @property
    def passed(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object, with the verdict."""
        verdict = "passed" if self.passed else "failed"
        return {
            "verdict": verdict,
            **asdict(self),
            "share": self.share,
            "share_apart": self.share_apart,
            "findings": list(self.findings),
        }
