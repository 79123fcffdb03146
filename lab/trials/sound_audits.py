"""Audits of sound mechanisms at the default settings: are the p-values uniform, and how many audits raise a false alarm?

    python -m lab.trials.sound_audits --audits 2000 --first-seed 0 --processes 2 --out FILE.jsonl

Each seed draws a configuration (`sound_configurations`) and audits it as ``crescendo audit`` does with no options. Every audit
becomes a line of the file: seed, configuration, findings, p-values, processor seconds. Seeds that the file has do not run again,
so that a run can be stopped and continued, or extended.

Where a check states that its p-values are exact, a Kolmogorov-Smirnov test compares those of all audits with the uniform
distribution. The other checks promise p-values no smaller than uniform ones; for them only an excess of small values counts.
With so many rows one is small by chance, so the last lines compare the smallest with Bonferroni's limit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

RUNS = 400  # the command's default
DELTA = 1e-6
SMALL = 0.05  # p-values below it count where they need not be uniform
LEVEL = 0.01  # at which the whole table is judged
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # one each: processes share the processors


def audited(seed: int) -> dict[str, Any]:
    """Return the audit of this seed's configuration, as a line of the file. An error of the audit counts as a false alarm."""
    try:
        return _audited(seed)
    except Exception as error:
        says = f"the audit stopped: {type(error).__name__}: {error}"
        return {"seed": seed, "findings": [says], "seconds": 0.0, "ps": [], "configuration": traceback.format_exc()}


def _audited(seed: int) -> dict[str, Any]:
    from crescendo.audit import audit
    from crescendo.audit.scores import NOTHING
    from crescendo.runs.auditing import THRESHOLD_RUNS, TRIES
    from crescendo_dp.accounting.epsilon import account
    from lab.trials.sound_configurations import configuration

    made = configuration(seed)
    certificate = made.certificate
    clients = range(certificate.terms.clients)
    began = time.process_time()
    delta = max(DELTA, 4e9 * certificate.failure)
    spent = [account(certificate.events(c), certificate.usual_delta(delta)) for c in clients]
    me = max(clients, key=lambda c: spent[c].epsilon)
    accounted = time.process_time()
    report = audit(
        certificate,
        made.objective,
        claimed=spent[me].epsilon,
        delta=delta,
        me=me,
        features=made.features,
        labels=made.labels,
        wire=made.wire,
        runs=RUNS,
        tries=TRIES,
        threshold_runs=THRESHOLD_RUNS * RUNS,
        seed=seed,
    )
    rows = [row for row in report.checks if row.p is not None and row.says != NOTHING]
    return {
        "seed": seed,
        "findings": [f"{finding.kind}: {finding.says}" for finding in report.findings],
        "seconds": round(time.process_time() - accounted, 2),
        "accounting": round(accounted - began, 2),
        "claimed": spent[me].epsilon,
        "bound": report.lower,
        "worst_ratio": report.worst_ratio,
        "ps": [[f"{row.name} ({row.source or 'both'})", row.exact, row.p] for row in rows],
        "configuration": made.says,
    }


def run(seeds: Iterable[int], processes: int) -> Iterator[dict[str, Any]]:
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(audited, seeds)


def stored(path: Path | None) -> dict[int, dict[str, Any]]:
    """Return the audits of the file, by seed, without a last line that was cut off."""
    found: dict[int, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["seed"]] = one
    return found


def append(path: Path, line: dict[str, Any]) -> None:
    """Add one line; if the file ends in a broken line, begin a new one."""
    cut = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" * cut + json.dumps(line) + "\n")


def table(found: dict[tuple[str, bool], list[float]]) -> Iterator[str]:
    """Yield a Markdown table with a row for every check and source, and a verdict on all rows together."""
    from scipy.stats import binomtest, kstest

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


def summary(audits: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Return all audits in words: false alarms, their time, and the table."""
    audits = [*audits]
    if not audits:
        return
    seconds, failed = [one["seconds"] for one in audits], [one for one in audits if one["findings"]]
    ps: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for one in audits:
        for name, exact, p in one["ps"]:
            ps[name, exact].append(p)
    yield from (f"seed {one['seed']}: {finding}" for one in failed for finding in one["findings"])
    low, high = min(one["seed"] for one in audits), max(one["seed"] for one in audits)
    yield f"{len(audits)} audits of sound mechanisms, seeds {low} to {high}: {len(failed)} false alarms"
    yield f"processor seconds of an audit: median {np.median(seconds):.1f}, mean {np.mean(seconds):.1f}, most {max(seconds):.1f}"
    yield from table(ps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a line of JSON for every audit; those that it has are not made again")
    said = parser.parse_args()
    known = stored(said.out)
    seeds = range(said.first_seed, said.first_seed + said.audits)
    for one in run([seed for seed in seeds if seed not in known], said.processes):
        known[one["seed"]] = one
        for finding in one["findings"]:
            print(f"seed {one['seed']}: {finding}", flush=True)
        if said.out is not None:
            append(said.out, one)
    print(*summary(known[seed] for seed in seeds if seed in known), sep="\n")


if __name__ == "__main__":
    main()
