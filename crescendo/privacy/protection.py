"""What protects the records of a run: a certified mechanism, with an epsilon or, where terms were looked at, without one."""

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
    """A mechanism that was certified for terms."""

    certificate: Certificate
    delta: float

    @property
    def aggregated_noise(self) -> float:
        """sqrt(T) sigma, or the root of the sum of the rounds' squares."""
        return self.certificate.sigma.aggregated(self.certificate.terms.rounds)

    def mechanism(self, c: int, rows: Ints, seed: int, noise: bool = True) -> Mechanism:
        """Client c's own, on seeded noise. Without noise it draws and clips the same, and no epsilon is ever stated for it."""
        made = self.certificate if noise else dataclasses.replace(self.certificate, sigma=Sigmas.constant(0.0))
        return made.client(c, rows, SeededSource(seed, c))

    def cautions(self) -> list[str]:
        """What to be warned of, although the certificate is true."""
        return list(cautions(self.certificate, self.delta))

    def certified_json(self, epsilon: float | None, stated: float | None) -> dict[str, Any]:
        """Plain data about the mechanism."""
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
    """A certified mechanism whose terms were looked at: what it would cost is not counted, and it has no epsilon to print."""

    looked_at: Sequence[LookedAt]

    def __repr__(self) -> str:
        made = self.certificate
        return f"Withheld(mechanism={made.mechanism!r}, looked_at={len(self.looked_at)}, sigma={made.sigma:.4g})"

    def _repr_html_(self) -> str:
        return html_lines([repr(self), *self.sentences()])

    @property
    def says(self) -> str:
        """Which entries were looked at, and how to state them."""
        return withheld_sentence(self.looked_at)

    def sentences(self) -> list[str]:
        """What stands where an epsilon would."""
        return [f"{self.says[:1].upper()}{self.says[1:]}."]

    def summary(self) -> str:
        """Plain text, a line for each sentence."""
        return "\n".join([repr(self), *self.sentences()])

    def to_json(self, names: tuple[str, ...], events: bool = False) -> dict[str, Any]:
        """Plain data, as of a guarantee, with what was looked at in place of every cost; events would tell the cost."""
        records = self.certificate.records
        return {
            **self.certified_json(None, None),
            "withheld": self.says,
            "looked_at": [one.where for one in self.looked_at],
            "clients": [{"name": name, "records": records[c]} for c, name in enumerate(names)],
            "notes": [],
        }
