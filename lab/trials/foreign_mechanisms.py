"""How reliably `crescendo audit` fails the unsound mechanisms of examples/ and passes the sound ones, over many seeds.

    python -m lab.trials.foreign_mechanisms [--unsound-seeds 20] [--sound-seeds 50]

Each line has a mechanism, its claim, the number of failed audits, the releases of an audit, and the lowest and highest bound.
The audits are shorter than the command's own, which draw for 20 seconds by default and would catch more.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from crescendo_dp.black_box.attack import BlackBoxReport, Claim
from crescendo_dp.black_box.mechanism_file import attack_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DELTA = 1e-5


class Foreign(NamedTuple):
    """A mechanism of examples/, its claim, and the number of releases that an audit of it draws."""

    kind: str
    epsilon: float
    runs: int

    def audited(self, seed: int) -> BlackBoxReport:
        return attack_file(str(EXAMPLES / self.kind), Claim(self.epsilon, DELTA), runs=self.runs, seed=seed)


UNSOUND = (
    Foreign("audit_flower_mod.py:LocalDp", 3.0, 3_000_000),
    Foreign("audit_svt_filter.py:SvtFilter", 0.94, 6_000),
    Foreign("audit_loaders.py:Shuffled", 2.71, 400_000),
    Foreign("audit_loaders.py:RateOfAllClients", 0.56, 600_000),
    Foreign("audit_batch_size.py:OverDrawn", 2.71, 200_000),
)
SOUND = (
    Foreign("audit_flower_mod.py:RightLocalDp", 3.0, 100_000),
    Foreign("audit_svt_filter.py:RandomCoordinates", 0.94, 20_000),
    Foreign("audit_loaders.py:Poisson", 2.71, 100_000),
    Foreign("audit_loaders.py:OwnRate", 0.56, 100_000),
    Foreign("audit_batch_size.py:NoisySum", 2.71, 40_000),
    Foreign("audit_batch_size.py:OverExpected", 2.71, 40_000),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unsound-seeds", type=int, default=20)
    parser.add_argument("--sound-seeds", type=int, default=50)
    asked = parser.parse_args()
    for which, seeds in ((UNSOUND, asked.unsound_seeds), (SOUND, asked.sound_seeds)):
        for foreign in which:
            found = [foreign.audited(seed) for seed in range(seeds)]
            failed, bounds = sum(not one.passed for one in found), [one.lower for one in found]
            print(
                f"{foreign.kind}, claims {foreign.epsilon:g}: {failed} of {seeds} failed, {foreign.runs:,} releases, "
                f"bounds from {min(bounds):.3f} to {max(bounds):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
