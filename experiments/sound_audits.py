"""A thousand audits of sound mechanisms: are the p-values uniform, and how many audits raise a false alarm?

    python -m experiments.sound_audits [--audits 1000] [--runs 24]

Each audit has a seed of its own and looks at little, so that it takes a second or two. For every check that says that its
p-values are exact, those of all audits are held against the uniform distribution (Kolmogorov and Smirnov); of the others, which
promise to be no smaller than uniform ones, only the excess of small values is.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
from scipy.stats import binomtest, kstest

from crescendo.audit import audit
from crescendo.core.terms import Terms
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

SMALL = 0.05  # the p-values below it are counted where they need not be uniform


def certificate(mechanism: str) -> Certificate:
    """A small run: rate .2, 12 rounds."""
    terms = Terms(ConstantSizes(4), ConstantSteps(0.8), (1.0,), 12, ahead=1, whole_rounds=True)
    return certify(mechanism, terms, Logistic(6, l2=0.1), clip=0.5, sigma=1.0, records=(20,), norm_bound=3.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=24)
    said = parser.parse_args()
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    failed = 0
    for seed in range(said.audits):
        made = certificate("minibatch" if seed % 2 else "local")
        report = audit(
            made, made.objective, claimed=1.0, delta=1e-5, runs=said.runs, tries=8, seed=seed, cost=lambda events: 0.0
        )
        failed += not report.passed
        for finding in report.findings:
            print(f"seed {seed}: {finding.kind}: {finding.says}", flush=True)
        for row in report.checks:
            if row.p is not None:
                found[f"{row.name} ({row.source})", row.exact].append(row.p)
    print(f"{said.audits} audits of sound mechanisms, {failed} false alarms")
    print("| check | p-values | mean | below .05 | uniform? |")
    print("|---|---|---|---|---|")
    for (name, exact), values in sorted(found.items()):
        p = np.array(values)
        below = int((p < SMALL).sum())
        fits = kstest(p, "uniform").pvalue if exact else binomtest(below, len(p), SMALL, "greater").pvalue
        how = f"{fits:.3f}" if exact else f"{fits:.3f} (not below)"
        print(f"| {name} | {len(p)} | {p.mean():.3f} | {below / len(p):.3f} | {how} |")


if __name__ == "__main__":
    main()
