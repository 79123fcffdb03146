"""A thousand audits of sound mechanisms: are the p-values uniform, and how many audits raise a false alarm?

    python -m experiments.sound_audits [--audits 1000] [--first-seed 0] [--runs 24] [--processes 2] [--out FILE.json]

Each audit has a seed of its own and looks at little, so that it takes a second or two. For every check that says that its
p-values are exact, those of all audits are held against the uniform distribution (Kolmogorov and Smirnov); of the others, which
promise to be no smaller than uniform ones, only the excess of small values is. So many rows are looked at that one of them is
small by chance: the last line holds the smallest against what Bonferroni allows.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, kstest

from crescendo.audit import audit
from crescendo.audit.scores import NOTHING
from crescendo.core.terms import Terms
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps

SMALL = 0.05  # the p-values below it are counted where they need not be uniform
LEVEL = 0.01  # at which the whole table is judged


@dataclass(frozen=True)
class Audited:
    """What one audit came to: the p-values by check, source and whether they are exact, and what it found."""

    seed: int
    ps: list[tuple[str, bool, float]]
    findings: list[str]


def certificate(mechanism: str) -> Certificate:
    """A small run: rate 0.2, 12 rounds."""
    terms = Terms(ConstantSizes(4), ConstantSteps(0.8), (1.0,), 12, ahead=1, whole_rounds=True)
    return certify(mechanism, terms, Logistic(6, l2=0.1), clip=0.5, sigma=1.0, records=(20,), norm_bound=3.0)


def audited(seed_and_runs: tuple[int, int]) -> Audited:
    seed, runs = seed_and_runs
    made = certificate("minibatch" if seed % 2 else "local")
    report = audit(
        made, made.objective, claimed=1.0, delta=1e-5, runs=runs, tries=8, seed=seed, cost=lambda events: 0.0
    )
    rows = [row for row in report.checks if row.p is not None and row.says != NOTHING]
    ps = [(f"{row.name} ({row.source or 'both'})", row.exact, row.p) for row in rows if row.p is not None]
    return Audited(seed, ps, [f"{finding.kind}: {finding.says}" for finding in report.findings])


def run(seeds: Iterable[int], runs: int, processes: int) -> Iterator[Audited]:
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(audited, ((seed, runs) for seed in seeds))


def table(found: dict[tuple[str, bool], list[float]]) -> Iterator[str]:
    """A row for every check and source, as markdown, and a verdict on all rows together."""
    yield "| check | p-values | mean | below 0.05 | uniform? |"
    yield "|---|---|---|---|---|"
    fits: dict[bool, list[float]] = {True: [], False: []}
    for (name, exact), values in sorted(found.items()):
        p = np.array(values)
        below = int((p < SMALL).sum())
        fit = kstest(p, "uniform").pvalue if exact else binomtest(below, len(p), SMALL, "greater").pvalue
        fits[exact].append(float(fit))
        yield f"| {name} | {len(p)} | {p.mean():.3f} | {below / len(p):.3f} | {fit:.3f}{'' if exact else ' (not below)'} |"
    for exact, what in ((True, "uniform"), (False, "no smaller than uniform")):
        least, allowed = min(fits[exact], default=1.0), LEVEL / max(1, len(fits[exact]))
        verdict = "nothing denies it" if least > allowed else "denied"
        rows = f"{len(fits[exact])} rows are to be {what}"
        yield f"{rows}: the smallest p is {least:.2g}, Bonferroni allows {allowed:.2g}: {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where all p-values are written, as JSON")
    said = parser.parse_args()
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    failed = 0
    seeds = range(said.first_seed, said.first_seed + said.audits)
    for done, one in enumerate(run(seeds, said.runs, said.processes), start=1):
        failed += bool(one.findings)
        for finding in one.findings:
            print(f"seed {one.seed}: {finding}", flush=True)
        for name, exact, p in one.ps:
            found[name, exact].append(p)
        if said.out is not None and (done % 50 == 0 or done == said.audits):
            rows = [{"check": name, "exact": exact, "p": values} for (name, exact), values in sorted(found.items())]
            given = {"audits": done, "first seed": said.first_seed, "runs": said.runs, "false alarms": failed}
            said.out.write_text(json.dumps({**given, "rows": rows}))
    print(f"{said.audits} audits of sound mechanisms, seeds from {said.first_seed}: {failed} false alarms")
    print(*table(found), sep="\n")


if __name__ == "__main__":
    main()
