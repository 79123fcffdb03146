"""Protection of a run's records: a certified mechanism, without an epsilon if its terms were read off records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crescendo.core.arrays import Ints
from crescendo.data.provenance import LookedAt, withheld_sentence
from crescendo.privacy.cautions import cautions
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Mechanism
from crescendo.privacy.mechanisms.noise import SeededSource
from crescendo.views import html_lines
from crescendo_dp.planning.sigmas import Sigmas

HIDDEN = "epsilon withheld"


@dataclass(frozen=True, eq=False, repr=False)
class Protection:
    """A mechanism that is certified for some terms."""

    certificate: Certificate
    delta: float

    @property
    def aggregated_noise(self) -> float:
        """sqrt(T) sigma, or the root of the sum of the rounds' squares."""
        return self.certificate.sigma.aggregated(self.certificate.terms.rounds)

    def mechanism(self, c: int, rows: Ints, seed: int, noise: bool = True) -> Mechanism:
        """Return client c's mechanism, on seeded noise. Without noise it draws and clips the same, but has no epsilon."""
        made = self.certificate if noise else dataclasses.replace(self.certificate, sigma=Sigmas.constant(0.0))
        return made.client(c, rows, SeededSource(seed, c))

    def cautions(self) -> list[str]:
        """Return the warnings that remain although the certificate is true."""
        return list(cautions(self.certificate, self.delta))

    def certified_json(self, epsilon: float | None, stated: float | None) -> dict[str, Any]:
        """Return plain data about the mechanism."""
        made = self.certificate
        return {
            "mechanism": made.mechanism,
            "simulated": True,
            "epsilon": epsilon,
            "delta": self.delta,
            "stated_epsilon": stated,
            "sigma": made.sigma.to_json(),
            "clip": made.clip if made.layers is None else made.layers.to_json(),
            "norm_bound": made.norm_bound,
            "aggregated_noise": self.aggregated_noise,
            "adjacency": made.adjacency,
            "sampling": made.sampling,
            "rounding_slack": made.slack,
            "failure": made.failure,
            "conditions": [
                {"name": one.name, "left": one.left, "right": one.right, "holds": one.holds} for one in made.conditions
            ],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Withheld(Protection):
    """A certified mechanism whose terms were read off records, so that its cost is not accounted: it has no epsilon."""

    looked_at: Sequence[LookedAt]

    def __repr__(self) -> str:
        made = self.certificate
        return f"Withheld(mechanism={made.mechanism!r}, looked_at={len(self.looked_at)}, sigma={made.sigma:.4g})"

    def _repr_html_(self) -> str:
        return html_lines([repr(self), *self.sentences()])

    @property
    def says(self) -> str:
        """The entries that were read off records, and how to state them instead."""
        return withheld_sentence(self.looked_at)

    def sentences(self) -> list[str]:
        """Return the sentence that replaces the epsilon."""
        return [f"{self.says[:1].upper()}{self.says[1:]}."]

    def summary(self) -> str:
        """Return plain text, one line per sentence."""
        return "\n".join([repr(self), *self.sentences()])

    def to_json(self, names: tuple[str, ...], events: bool = False) -> dict[str, Any]:
        """Return a guarantee's plain data with the entries read off records in place of costs; events would give costs away."""
        records = self.certificate.records
        return {
            **self.certified_json(None, None),
            "withheld": self.says,
            "looked_at": [one.where for one in self.looked_at],
            "clients": [{"name": name, "records": records[c]} for c, name in enumerate(names)],
            "notes": [],
        }
